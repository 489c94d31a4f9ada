//! One attempt to acquire a lock: tried on the shared connection, then waited for on one of its own. An attempt that is
//! dropped before it has come to anything sees to it that nothing stays behind.

use super::giving_back;
use super::held_lock::{Grant, HeldLock, LeaseEnd};
use super::hold::{Began, Hold, vouched_until};
use super::outage::Outage;
use super::shared::Shared;
use super::terms::{Lease, Replicas, Terms, Until};
use crate::error::{Error, ErrorKind};
use crate::link::request::{self, Request, Verdict, Wait};
use crate::link::{Answer, Doubt, Fault, Use};
use futures_util::future::BoxFuture;
use redis::{FromRedisValue, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::debug;

/// Over a connection that cannot wait, a lock that is taken is asked for again each time that this has passed.
const POLL: Duration = Duration::from_millis(50);

/// `None`: the lock was not free, for as long as the caller was willing to wait. Boxed, since callers put futures into
/// futures, and the compiler has a limit on how deep.
pub(crate) fn acquire(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    terms: Terms,
    until: Until,
) -> BoxFuture<'_, Result<Option<HeldLock>, Error>> {
    Box::pin(acquire_step_by_step(shared, hold, terms, until))
}

async fn acquire_step_by_step(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    terms: Terms,
    until: Until,
) -> Result<Option<HeldLock>, Error> {
    if terms.replicas.is_some() && !shared.links.can_wait() {
        let why = "replicas can only be waited for on connections that the client has opened itself";
        return Err(Error::configuration(&hold.key, why));
    }
    let mut attempt = Attempt::begin(shared, hold.clone(), terms).await;
    let Some((answer, token)) = attempt.ask(until).await? else { return Ok(None) };
    let began = attempt.lease_began(answer.sent_at).await?;
    let held = attempt.granted(began, token);
    debug!(lock = %held.name(), holder = %held.holder(), ?token, "acquired");
    if let Some(replicas) = terms.replicas {
        confirmed_by(replicas, &hold.key, answer).await?;
    } else {
        answer.node.keep(answer.connection);
    }
    if held.is_lost() {
        return Err(Error::new(ErrorKind::Lost, &hold.key));
    }
    Ok(Some(held))
}

struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    hold: Arc<Hold>,
    terms: Terms,
    /// The one to ask for.
    lease: Duration,
    doubt: Doubt,
    state: State,
}

enum State {
    Asking,
    /// The server has granted it, and there is no guard for it yet.
    Granted,
    /// There is a guard for it.
    Over,
}

impl<'a> Attempt<'a> {
    async fn begin(shared: &'a Arc<Shared>, hold: Arc<Hold>, terms: Terms) -> Self {
        hold.attempt_begins(terms.side);
        let lease = hold.lease_for(terms.lease.length());
        let attempt = Self { shared, hold, terms, lease, doubt: Doubt::default(), state: State::Asking };
        // A release that is under way could come after our request, and take what it gave.
        drop(attempt.hold.releasing.lock().await);
        attempt
    }

    async fn ask(&mut self, until: Until) -> Result<Option<(Answer, Option<u64>)>, Error> {
        let links = &self.shared.links;
        // The first try needs no connection of its own, unless there is something to be said on it afterwards.
        let mut waits = self.terms.replicas.is_some();
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
                    outage.goes_on(fault, until).await.map_err(|fault| fault.into_error(&self.hold.key))?;
                    continue;
                }
            };
            answer.node.keep(answer.connection);
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
        let Hold { key, holder, .. } = &*self.hold;
        let Terms { side, fenced, replicas, .. } = self.terms;
        let answer_limit = self.shared.links.limits.answer;
        let request = || Request {
            command: request::acquire(side, key, holder, self.lease, wait, fenced),
            limit: match wait {
                Wait::No => Some(answer_limit),
                Wait::For(time) => time.checked_add(answer_limit),
                Wait::ForEver => None,
            },
        };
        let wanted = match (wait, replicas) {
            (Wait::No, None) => Use::Shared,
            _ => Use::Dedicated,
        };
        let mut answer = self.shared.links.ask(key, wanted, &self.doubt, request).await?;
        let value = std::mem::replace(&mut answer.value, Value::Nil);
        request::verdict(value).map(|verdict| (answer, verdict))
    }

    /// When the lease began. After a wait the server may have granted the lock at any time since the request; so the
    /// lease is begun anew. So is that of an owner who has the lock already, since the server keeps a lease for each
    /// read hold.
    async fn lease_began(&self, sent_at: Instant) -> Result<Began, Error> {
        let for_all = self.hold.is_shared();
        if !for_all && sent_at.elapsed() <= self.lease / 10 {
            return Ok(Began { after: sent_at, for_all });
        }
        let Hold { key, holder, .. } = &*self.hold;
        let links = &self.shared.links;
        let request = || Request { command: request::renew(key, holder, self.lease), limit: Some(links.limits.answer) };
        let mut outage = self.outage();
        loop {
            match links.ask(key, Use::Shared, &Doubt::default(), request).await {
                Ok(Answer { value: Value::Int(1), sent_at, .. }) => return Ok(Began { after: sent_at, for_all: true }),
                Ok(_) => return Err(Error::new(ErrorKind::Lost, key)),
                Err(fault) => {
                    outage.goes_on(fault, Until::Granted).await.map_err(|fault| fault.into_error(key))?;
                }
            }
        }
    }

    fn outage(&self) -> Outage {
        let limits = self.shared.links.limits;
        Outage::new(self.shared.settings.patience, limits.connect + limits.answer)
    }

    fn granted(mut self, began: Began, token: Option<u64>) -> HeldLock {
        self.state = State::Over;
        let (side, lease, hold) = (self.terms.side, self.lease, self.hold.clone());
        let era = hold.attempt_granted(side, self.doubt.remains(), began, lease);
        let end = match self.terms.lease {
            Lease::Kept(_) => LeaseEnd::Kept { ticket: self.shared.watchdog.watch(&hold, lease, began.after) },
            Lease::Fixed(length) => LeaseEnd::Fixed(vouched_until(began.after, length)),
        };
        HeldLock::new(self.shared.clone(), hold, Grant { side, era, lease, end, token })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let doubtful = match self.state {
            State::Asking => self.doubt.remains(),
            State::Granted => true,
            State::Over => return,
        };
        if self.hold.attempt_failed(self.terms.side, doubtful) {
            giving_back::all(self.shared, self.hold.clone(), self.terms.side, self.lease);
        }
    }
}

/// WAIT, on the connection that was granted the lock.
async fn confirmed_by(replicas: Replicas, key: &[u8], answer: Answer) -> Result<(), Error> {
    let Answer { node, mut connection, .. } = answer;
    let Replicas { wanted, timeout } = replicas;
    // 0 would be for ever.
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
    let limit = timeout.checked_add(node.limits().answer);
    let count = connection.send(redis::cmd("WAIT").arg(wanted).arg(milliseconds), limit).await;
    let count = count.map_err(|fault| fault.into_error(key))?;
    node.keep(connection);
    let confirmed = usize::from_redis_value(count).unwrap_or(0);
    if confirmed < wanted {
        return Err(Error::new(ErrorKind::TooFewReplicas { wanted, confirmed }, key));
    }
    Ok(())
}
