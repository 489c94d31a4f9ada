//! One attempt to acquire a lock: tried once, then waited for by a ticket. It goes on in the client's own thread, and is
//! dropped there when its caller drops it or its time is over; then it sees to it that nothing stays behind.
//!
//! **A wait asks for a short lease.** A machine that is gone without a word keeps the lock from the next one for as long
//! as that, and each of its waiters does. What is granted is the caller's as soon as that is told, for as long as the short
//! lease lasts: its renewal to the whole one comes soon, beside the caller's work.
//!
//! It is renewed before it is the caller's where too little of it is left; where nobody renews it later; where the owner
//! has the lock already, since the server keeps a lease for each read hold; where replicas are to confirm it; and where
//! the server may not be the one to ask any more, which the renewal finds out.

use super::crowds::InCrowd;
use super::giving_back;
use super::held_lock::{Grant, HeldLock, LeaseEnd};
use super::hold::{Began, Hold, vouched_until};
use super::outage::Outage;
use super::shared::{Shared, Unsettled};
use super::terms::{Lease, Replicas, Terms, Until};
use crate::alarms::Alarm;
use crate::error::{Error, ErrorKind};
use crate::foreign::{heard, log};
use crate::link::request::{self, Leased, Verdict, Wait};
use crate::link::{Answer, Doubt, Fault, Session, Ticket, Told, send_all};
use crate::runtime::{Ended, Task};
use redis::{FromRedisValue, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, Level, debug, debug_span};

/// The lease that a wait asks for at most.
const LEASE_OF_A_WAIT: Duration = Duration::from_secs(3);

/// Of what was asked for this part is left where it is renewed beside the work: time for two tries of the watchdog, which
/// take a sixth each.
const LEFT_PARTS: u32 = 3;

/// A wait is asked for again, by the same ticket, each time that this has passed: so none lasts for ever, whatever the
/// server or something on the way to it has forgotten.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// So much after its end an attempt is given up that goes on in a thread which does not say so itself.
const LATE_AT_LAST: Duration = Duration::from_millis(500);

/// `None`: the lock was not free, for as long as the caller was willing to wait.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    terms: Terms,
    until: Until,
) -> Result<Option<HeldLock>, Error> {
    shared.thread.check(&hold.key)?;
    let span = debug_span!("acquire", lock = %hold.name(), holder = %hold.holder());
    let attempt = Attempt::begin(shared, hold.clone(), terms);
    let limits = shared.links.limits;
    let confirming =
        terms.replicas.map_or(Duration::ZERO, |replicas| replicas.timeout + limits.connect + limits.answer);
    let end = until.end(limits.answer).and_then(|end| end.checked_add(confirming + LATE_AT_LAST));
    let limit = end.map(|end| shared.thread.alarm(end));
    let task = shared.thread.spawn(attempt.run(until));
    let outcome = heard(Acquiring { shared, task, limit, is_done: false }).instrument(span).await;
    outcome.unwrap_or_else(|ended| Err(ended.into_error(&hold.key)))
}

/// An attempt that its caller waits for. Dropped, it ends a moment later where it goes on, and begins to take back what it
/// has asked for; until then the client is not settled.
struct Acquiring<'a, T> {
    shared: &'a Shared,
    task: Task<T>,
    /// When it is waited for no longer, whatever has become of the thread where it goes on.
    limit: Option<Alarm>,
    is_done: bool,
}

impl<T> Future for Acquiring<'_, T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.task).poll(context);
        self.is_done = outcome.is_ready();
        match self.limit.as_mut().map(|limit| Pin::new(limit).poll(context)) {
            Some(Poll::Ready(())) if outcome.is_pending() => Poll::Ready(Err(Ended)),
            _ => outcome,
        }
    }
}

impl<T> Drop for Acquiring<'_, T> {
    fn drop(&mut self) {
        if !self.is_done {
            self.task.cancel(Unsettled::begin(self.shared));
        }
    }
}

struct Attempt {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    terms: Terms,
    /// See [`Hold::attempt_begins`].
    began: u64,
    doubt: Doubt,
    /// By which it may be waiting, as far as the server is concerned.
    ticket: Option<Ticket>,
    state: State,
    /// Why the last request was not answered, if it was not.
    trouble: Option<Fault>,
}

enum State {
    Asking,
    /// The server has said that somebody else is before us.
    Waiting,
    /// The server has granted it, and there is no guard for it yet.
    Granted,
    /// There is a guard for it.
    Over,
}

/// What the server has granted.
struct Granted {
    token: Option<u64>,
    /// The lease that was asked for.
    asked: Duration,
    /// What is known of the one that runs.
    lease: Option<Leased>,
}

impl Attempt {
    fn begin(shared: &Arc<Shared>, hold: Arc<Hold>, terms: Terms) -> Self {
        let (began, shared, doubt) = (hold.attempt_begins(terms.side), shared.clone(), Doubt::default());
        Self { shared, hold, terms, began, doubt, ticket: None, state: State::Asking, trouble: None }
    }

    async fn run(mut self, until: Until) -> Result<Option<HeldLock>, Error> {
        let held = match until.end(self.shared.links.limits.answer) {
            Some(end) => timeout_at(end, self.hold(until)).await.unwrap_or_else(|_| self.out_of_time()),
            None => self.hold(until).await,
        };
        let Some(held) = held? else { return Ok(None) };
        log(Level::DEBUG, || {
            let (hold, token) = (self.hold.clone(), held.token());
            move || debug!(lock = %hold.name(), holder = %hold.holder(), token, "acquired")
        });
        if let Some(replicas) = self.terms.replicas {
            self.confirmed_by(replicas).await?;
        }
        if held.is_lost() {
            return Err(Error::new(ErrorKind::Lost, &self.hold.key));
        }
        Ok(Some(held))
    }

    async fn hold(&mut self, until: Until) -> Result<Option<HeldLock>, Error> {
        // A release that is under way could come after our request, and take what it gave.
        drop(self.hold.releasing.lock().await);
        loop {
            let Some(granted) = self.ask(until).await? else { return Ok(None) };
            self.state = State::Granted;
            if let Some(began) = self.lease_began(&granted, until).await? {
                return Ok(Some(self.held(granted.token, began)));
            }
            log(Level::DEBUG, || {
                let hold = self.hold.clone();
                move || debug!(lock = %hold.name(), "its lease had ended before it could be renewed: from the beginning")
            });
            self.state = State::Asking;
        }
    }

    async fn ask(&mut self, until: Until) -> Result<Option<Granted>, Error> {
        let mut outage = self.outage();
        let mut crowd = (!until.is_over()).then(|| self.shared.crowds.join(&self.hold.key));
        let mut waits = crowd.as_ref().is_some_and(InCrowd::is_behind_others);
        loop {
            let lease = self.lease(waits);
            let verdict = if waits { self.wait(lease, until, &mut crowd).await } else { self.try_once(lease).await };
            match verdict {
                Ok(Verdict::Granted { token, lease: began }) => {
                    return Ok(Some(Granted { token, asked: lease, lease: began }));
                }
                Ok(_) => {
                    (self.state, self.trouble) = (State::Waiting, None);
                    outage.is_over();
                    if until.is_over() {
                        return Ok(None);
                    }
                    waits = true;
                }
                Err(fault) => self.goes_on(&mut outage, fault, until).await?,
            }
        }
    }

    /// The one to ask for.
    fn lease(&self, waits: bool) -> Duration {
        let whole = self.terms.lease.length();
        self.hold.lease_for(if waits { whole.min(LEASE_OF_A_WAIT) } else { whole })
    }

    async fn try_once(&mut self, lease: Duration) -> Result<Verdict, Fault> {
        let Hold { key, holder, .. } = &*self.hold;
        let Terms { side, fenced, .. } = self.terms;
        let command = request::acquire(side, key, holder, lease, fenced, None);
        let Answer { value, sent_at, .. } = self.shared.links.ask(key, &self.doubt, &command).await?;
        request::verdict(value, fenced, Leased { after: sent_at, length: lease })
    }

    /// By the same ticket as before, wherever that is possible: what waits already is not queued twice.
    async fn wait(&mut self, lease: Duration, until: Until, crowd: &mut Option<InCrowd>) -> Result<Verdict, Fault> {
        let Self { shared, hold, terms: Terms { side, fenced, replicas, .. }, ticket, .. } = self;
        let Hold { key, holder, .. } = &**hold;
        let command = |session: &Arc<Session>| {
            let ticket = ticket_of(session, ticket);
            let wait = Wait { session: &session.name, ticket, time: until.left() };
            request::acquire(*side, key, holder, lease, *fenced, Some(wait))
        };
        let Answer { value, sent_at, node } = shared.links.ask_in_session(key, &self.doubt, command).await?;
        let verdict = request::verdict(value, *fenced, Leased { after: sent_at, length: lease })?;
        let Some(ticket) = self.ticket.as_mut().filter(|_| verdict == Verdict::Waits) else {
            self.ticket = None;
            return Ok(verdict);
        };
        (self.state, self.trouble) = (State::Waiting, None);
        crowd.iter_mut().for_each(InCrowd::waits);
        match timeout(ASKED_AGAIN, ticket.told()).await.unwrap_or(Told::Event(Ok(Verdict::Waits))) {
            Told::Event(Ok(Verdict::Waits)) => Ok(Verdict::Waits),
            Told::Event(Ok(Verdict::Granted { token, lease })) => {
                let is_sure = ticket.session.is_open() && shared.links.route.trusts(key, &node) && replicas.is_none();
                self.ticket = None;
                Ok(Verdict::Granted { token, lease: lease.filter(|_| is_sure) })
            }
            Told::Event(outcome) => {
                self.ticket = None;
                outcome.inspect_err(|fault| shared.links.heed(key, &node, fault))
            }
            Told::Broken(fault) => {
                // What was granted meanwhile may never be told.
                self.doubt.unanswered();
                shared.links.heed(key, &node, &fault);
                Err(fault)
            }
        }
    }

    /// The lease that counts: the one that was granted, where that will do, or one that is begun anew and is as long as it
    /// is to be. Nothing if it was over by then.
    async fn lease_began(&mut self, granted: &Granted, until: Until) -> Result<Option<Began>, Error> {
        if let Some(lease) = granted.lease.filter(|lease| self.will_do(granted.asked, lease)) {
            return Ok(Some(Began { lease, for_all: false }));
        }
        let mut outage = self.outage();
        loop {
            let (length, Hold { key, holder, .. }) = (self.lease(false), &*self.hold);
            let command = request::renew(key, holder, length);
            let answer = self.shared.links.ask(key, &Doubt::default(), &command).await;
            match answer.and_then(|answer| Ok((request::renewed(&answer.value)?, answer.sent_at))) {
                Ok((true, after)) => return Ok(Some(Began { lease: Leased { after, length }, for_all: true })),
                Ok((false, _)) => return Ok(None),
                Err(fault) => self.goes_on(&mut outage, fault, until).await?,
            }
        }
    }

    /// Whether so much is left of it that whoever waits for it can have it.
    fn will_do(&self, asked: Duration, lease: &Leased) -> bool {
        let least = match self.terms.lease {
            Lease::Kept(_) => asked / LEFT_PARTS,
            // Nobody renews it, so it is to be whole.
            Lease::Fixed(length) => length - length / 10,
        };
        let left = vouched_until(lease).saturating_duration_since(Instant::now());
        !self.hold.is_shared() && left >= least
    }

    fn outage(&self) -> Outage {
        let limits = self.shared.links.limits;
        Outage::new(self.shared.settings.patience, limits.connect + limits.answer)
    }

    async fn goes_on(&mut self, outage: &mut Outage, fault: Fault, until: Until) -> Result<(), Error> {
        self.trouble = Some(fault.clone());
        log(Level::DEBUG, || {
            let (hold, fault) = (self.hold.clone(), fault.clone());
            move || debug!(lock = %hold.name(), ?fault, "no answer")
        });
        outage.goes_on(fault, until).await.map_err(|fault| fault.into_error(&self.hold.key))
    }

    /// What is known when the time is over: that somebody else was before us, or only that nobody has answered.
    fn out_of_time(&mut self) -> Result<Option<HeldLock>, Error> {
        match (&self.state, self.trouble.take()) {
            (State::Waiting, None) => Ok(None),
            (_, trouble) => {
                Err(trouble.unwrap_or_else(|| Fault::Silent(Fault::timed_out())).into_error(&self.hold.key))
            }
        }
    }

    fn held(&mut self, token: Option<u64>, began: Began) -> HeldLock {
        self.state = State::Over;
        let (side, hold, lease) = (self.terms.side, self.hold.clone(), self.lease(false));
        let era = hold.attempt_granted(side, self.doubt.remains(), began);
        let end = match self.terms.lease {
            Lease::Kept(_) => LeaseEnd::Kept { ticket: self.shared.watchdog.watch(&hold, lease, began.lease) },
            // What was renewed may be longer, for what others have under this holder.
            Lease::Fixed(length) if began.for_all => LeaseEnd::Fixed(vouched_until(&Leased { length, ..began.lease })),
            Lease::Fixed(_) => LeaseEnd::Fixed(vouched_until(&began.lease)),
        };
        HeldLock::new(self.shared.clone(), hold, Grant { side, era, lease, end, token })
    }

    /// WAIT, behind a renewal on the same connection: what is confirmed then is all that came before.
    async fn confirmed_by(&self, replicas: Replicas) -> Result<(), Error> {
        let Replicas { wanted, timeout } = replicas;
        let Hold { key, holder, .. } = &*self.hold;
        let about = |fault: Fault| fault.into_error(key);
        let node = self.shared.links.route.node(key).await.map_err(about)?;
        let mut connection = node.spare().await.map_err(about)?;
        // 0 would be for ever.
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
        let mut requests = redis::pipe();
        requests.add_command(request::renew(key, holder, self.lease(false)));
        requests.cmd("WAIT").arg(wanted).arg(milliseconds);
        let limit = timeout.saturating_add(node.limits().answer);
        let mut answers = send_all(&mut connection, &mut requests, limit).await.map_err(about)?.into_iter();
        let mut answer = || answers.next().unwrap_or(Ok(Value::Nil)).map_err(|error| about(Fault::of_request(error)));
        let is_held = request::renewed(&answer()?).map_err(about)?;
        let confirmed = usize::from_redis_value(answer()?).unwrap_or(0);
        node.keep(connection);
        self.shared.links.route.still_leads_to(&node).map_err(about)?;
        match is_held {
            true if confirmed >= wanted => Ok(()),
            true => Err(Error::new(ErrorKind::TooFewReplicas { wanted, confirmed }, key)),
            false => Err(Error::new(ErrorKind::Lost, key)),
        }
    }
}

/// The ticket by which it waits already, or another one if that was of another session.
fn ticket_of(session: &Arc<Session>, ticket: &mut Option<Ticket>) -> u64 {
    match ticket.as_mut().filter(|ticket| Arc::ptr_eq(&ticket.session, session)) {
        Some(ticket) => {
            ticket.expect();
            ticket.number
        }
        None => ticket.insert(session.ticket()).number,
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let doubtful = match self.state {
            State::Asking | State::Waiting => self.doubt.remains(),
            State::Granted => true,
            State::Over => return,
        };
        let (hold, side, lease) = (self.hold.clone(), self.terms.side, self.lease(false));
        let (shared, doubt) = (&self.shared, std::mem::take(&mut self.doubt));
        match self.ticket.take() {
            Some(ticket) => giving_back::wait(shared, hold, (side, self.began), lease, ticket, doubt),
            None if hold.attempt_failed(side, doubtful) => giving_back::all(shared, hold, side, lease),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::core::Settings;
    use crate::link::{Links, Manner, Node, Route};
    use crate::runtime::Thread;
    use redis::IntoConnectionInfo;
    use std::future::pending;
    use tokio::runtime::Builder;

    #[test]
    fn a_limit_holds_though_nothing_comes_of_the_attempt() {
        let (settings, thread) = (Settings::default(), Thread::start().unwrap());
        let nobody = "redis://127.0.0.1:1".into_connection_info().unwrap();
        let node = Node::at(nobody, &Manner::of(settings.limits), &thread).unwrap();
        let links = Links { route: Route::Single(node), limits: settings.limits };
        let shared = Shared::new(links, settings, "", thread.clone());
        let limit = Some(thread.alarm(now() + Duration::from_millis(20)));
        let acquiring = Acquiring { shared: &shared, task: thread.spawn(pending::<()>()), limit, is_done: false };
        assert!(Builder::new_current_thread().build().unwrap().block_on(acquiring).is_err());
    }
}
