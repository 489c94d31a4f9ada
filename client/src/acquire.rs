//! How a lock is acquired: tried on the shared connection, then waited for on one of its own.

use crate::error::{Error, ErrorKind};
use crate::farewell;
use crate::guard::{Part, Term};
use crate::hold::{Began, Hold, vouched_until};
use crate::link::{Answer, Fault, Flight, Lane, Request};
use crate::lock::{Lease, Lock, Replicas};
use crate::locks::Shared;
use crate::pause::Pause;
use crate::request::{self, Verdict, Wait};
use futures_util::future::BoxFuture;
use redis::{FromRedisValue, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::debug;

/// Over a connection that cannot wait, a lock that is taken is asked for again each time that this has passed.
const POLL: Duration = Duration::from_millis(50);

/// How long the caller is willing to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Now,
    Time(Instant),
    Granted,
}

/// `None`: the lock was not free, for as long as it was to be waited for.
pub(crate) async fn acquire(lock: &Lock, until: Until) -> Result<Option<Part>, Error> {
    let shared = &lock.locks.shared;
    let hold = match &lock.owner {
        Some(owner) => shared.named_hold(&lock.name, owner),
        None => Arc::new(Hold::new(lock.name.clone(), shared.fresh_holder(), false)),
    };
    acquire_as(lock, hold, until).await
}

/// The same for a holder that was chosen already. Boxed, since callers put futures into futures, and the compiler has a limit
/// on how deep.
pub(crate) fn acquire_as(lock: &Lock, hold: Arc<Hold>, until: Until) -> BoxFuture<'_, Result<Option<Part>, Error>> {
    Box::pin(acquire_step_by_step(lock, hold, until))
}

async fn acquire_step_by_step(lock: &Lock, hold: Arc<Hold>, until: Until) -> Result<Option<Part>, Error> {
    if lock.replicas.is_some() && !lock.locks.shared.links.can_wait() {
        let why = "replicas can only be waited for on connections that the client has opened itself";
        return Err(Error::configuration(&lock.name, why));
    }
    let mut attempt = Attempt::begin(lock, hold).await;
    let Some((answer, token)) = attempt.ask(until).await? else { return Ok(None) };
    let began = attempt.began(answer.sent_at).await?;
    let part = attempt.granted(began, token);
    debug!(lock = %part.name(), holder = %part.holder(), ?token, "acquired");
    if let Some(replicas) = lock.replicas {
        confirmed_by(replicas, lock, answer).await?;
    } else {
        answer.node.keep(answer.line);
    }
    if part.is_lost() {
        return Err(Error::new(ErrorKind::Lost, &lock.name));
    }
    Ok(Some(part))
}

/// One caller's wish for one more hold. Dropped before it was granted, it sees to it that nothing stays behind.
struct Attempt<'a> {
    lock: &'a Lock,
    shared: &'a Arc<Shared>,
    hold: Arc<Hold>,
    lease: Duration,
    flight: Flight,
    state: State,
}

enum State {
    Asking,
    /// The server has granted it, and nobody stands for it yet.
    Granted,
    /// A guard stands for it.
    Over,
}

impl<'a> Attempt<'a> {
    async fn begin(lock: &'a Lock, hold: Arc<Hold>) -> Self {
        hold.attempt(lock.side);
        let lease = hold.lease_for(lock.lease.length());
        let attempt =
            Self { lock, shared: &lock.locks.shared, hold, lease, flight: Flight::default(), state: State::Asking };
        // A release that is under way could come after our request, and take what it gave.
        drop(attempt.hold.farewell.lock().await);
        attempt
    }

    async fn ask(&mut self, until: Until) -> Result<Option<(Answer, Option<u64>)>, Error> {
        let links = &self.shared.links;
        // The first try needs no connection of its own, unless there is something to be said on it afterwards.
        let mut waits = self.lock.replicas.is_some();
        let mut outage = self.outage();
        loop {
            let wait = if waits && links.can_wait() { until.wait() } else { Wait::No };
            let answer = match self.ask_once(wait).await {
                Ok((answer, Verdict::Granted { token })) => {
                    self.state = State::Granted;
                    return Ok(Some((answer, token)));
                }
                Ok((answer, Verdict::Busy)) => answer,
                Err(fault) => {
                    outage.goes_on(fault, until).await.map_err(|fault| fault.into_error(&self.lock.name))?;
                    continue;
                }
            };
            answer.node.keep(answer.line);
            outage.is_over();
            if until.is_over() {
                return Ok(None);
            }
            if !links.can_wait() {
                sleep(until.left().map_or(POLL, |left| left.min(POLL))).await;
            }
            waits = true;
        }
    }

    async fn ask_once(&self, wait: Wait) -> Result<(Answer, Verdict), Fault> {
        let Lock { side, name, fenced, replicas, .. } = self.lock;
        let answer_limit = self.shared.links.limits.answer;
        let request = || Request {
            command: request::acquire(*side, name, &self.hold.holder, self.lease, wait, *fenced),
            limit: match wait {
                Wait::No => Some(answer_limit),
                Wait::For(time) => time.checked_add(answer_limit),
                Wait::ForEver => None,
            },
        };
        let lane = match (wait, replicas) {
            (Wait::No, None) => Lane::Shared,
            _ => Lane::Aside,
        };
        let mut answer = self.shared.links.ask(name, lane, &self.flight, request).await?;
        let value = std::mem::replace(&mut answer.value, Value::Nil);
        request::verdict(value).map(|verdict| (answer, verdict))
    }

    /// When the lease began. Nobody knows when a grant was that came after a wait, except that the lease is running; so it is
    /// begun anew. So is that of an owner who has the lock already, since each hold has its own.
    async fn began(&self, sent_at: Instant) -> Result<Began, Error> {
        let for_all = self.hold.is_shared();
        if !for_all && sent_at.elapsed() <= self.lease / 10 {
            return Ok(Began { after: sent_at, for_all });
        }
        let Lock { name, .. } = self.lock;
        let links = &self.shared.links;
        let request = || Request {
            command: request::renew(name, &self.hold.holder, self.lease),
            limit: Some(links.limits.answer),
        };
        let mut outage = self.outage();
        loop {
            match links.ask(name, Lane::Shared, &Flight::default(), request).await {
                Ok(Answer { value: Value::Int(1), sent_at, .. }) => return Ok(Began { after: sent_at, for_all: true }),
                Ok(_) => return Err(Error::new(ErrorKind::Lost, name)),
                Err(fault) => {
                    outage.goes_on(fault, Until::Granted).await.map_err(|fault| fault.into_error(name))?;
                }
            }
        }
    }

    fn outage(&self) -> Outage {
        let limits = self.shared.links.limits;
        Outage::new(self.shared.options.patience, limits.connect + limits.answer)
    }

    fn granted(mut self, began: Began, token: Option<u64>) -> Part {
        self.state = State::Over;
        let (lock, hold) = (self.lock, self.hold.clone());
        let era = hold.granted(lock.side, self.flight.is_doubtful(), began, self.lease);
        let term = match lock.lease {
            Lease::Kept(_) => Term::Kept { ticket: self.shared.watchdog.watch(&hold, self.lease, began.after) },
            Lease::Fixed(length) => Term::Until(vouched_until(began.after, length)),
        };
        Part::new(self.shared.clone(), hold, lock.side, era, self.lease, term, token)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let doubtful = match self.state {
            State::Asking => self.flight.is_doubtful(),
            State::Granted => true,
            State::Over => return,
        };
        if self.hold.failed(self.lock.side, doubtful) {
            farewell::to_all(self.shared, self.hold.clone(), self.lock.side, self.lease);
        }
    }
}

/// Servers that do not answer, and for how long they have not.
struct Outage {
    patience: Duration,
    since: Option<Instant>,
    asked_at: Instant,
    /// Longer than any request takes to fail that reaches nobody: one that took longer was a wait.
    longest_failure: Duration,
    pause: Pause,
}

impl Outage {
    fn new(patience: Duration, longest_failure: Duration) -> Self {
        Self { patience, since: None, asked_at: Instant::now(), longest_failure, pause: Pause::short() }
    }

    fn is_over(&mut self) {
        *self = Self::new(self.patience, self.longest_failure);
    }

    /// Pauses before the next try, or gives the fault back if there is to be none.
    async fn goes_on(&mut self, fault: Fault, until: Until) -> Result<(), Fault> {
        if self.asked_at.elapsed() > self.longest_failure {
            self.is_over();
        }
        let first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        // A connection that had broken unnoticed says nothing about the server.
        let at_once = first && fault.is_prompt();
        let patient = match until {
            Until::Now => at_once,
            Until::Time(time) => Instant::now() < time && since.elapsed() < self.patience,
            Until::Granted => since.elapsed() < self.patience,
        };
        if !fault.may_pass() || !patient {
            return Err(fault);
        }
        debug!(?fault, "asking again");
        if !at_once {
            let pause = self.pause.next();
            sleep(until.left().map_or(pause, |left| left.min(pause))).await;
        }
        self.asked_at = Instant::now();
        Ok(())
    }
}

impl Until {
    fn wait(self) -> Wait {
        match self {
            Self::Now => Wait::No,
            Self::Time(time) => match time.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Wait::No,
                left => Wait::For(left),
            },
            Self::Granted => Wait::ForEver,
        }
    }

    fn is_over(self) -> bool {
        match self {
            Self::Now => true,
            Self::Time(time) => time <= Instant::now(),
            Self::Granted => false,
        }
    }

    fn left(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::Time(time) => Some(time.saturating_duration_since(Instant::now())),
            Self::Granted => None,
        }
    }
}

/// WAIT, on the connection that was granted the lock.
async fn confirmed_by(replicas: Replicas, lock: &Lock, answer: Answer) -> Result<(), Error> {
    let Answer { node, mut line, .. } = answer;
    let Replicas { wanted, timeout } = replicas;
    // 0 would be for ever.
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
    let limit = timeout.checked_add(node.limits().answer);
    let told = line.send(redis::cmd("WAIT").arg(wanted).arg(milliseconds), limit).await;
    let told = told.map_err(|fault| fault.into_error(&lock.name))?;
    node.keep(line);
    let confirmed = usize::from_redis_value(told).unwrap_or(0);
    if confirmed < wanted {
        return Err(Error::new(ErrorKind::TooFewReplicas { wanted, confirmed }, &lock.name));
    }
    Ok(())
}
