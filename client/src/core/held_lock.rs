//! One lock that is held: until when it can be vouched for, and giving it back when its guard goes.

use super::giving_back::{self, Outcome};
use super::hold::{Hold, Vouched};
use super::shared::Shared;
use crate::alarms::Alarm;
use crate::clock::now;
use crate::error::{Error, ErrorKind};
use crate::link::request::Side;
use crate::loss::Loss;
use futures_util::future::pending;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct HeldLock {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    grant: Grant,
    /// Gone when it was released.
    held: Option<watch::Sender<()>>,
}

/// What came of asking for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub side: Side,
    pub era: u64,
    pub lease: Duration,
    pub end: LeaseEnd,
    pub token: Option<u64>,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseEnd {
    /// Not, while the watchdog keeps it alive, which knows it by the ticket.
    Kept { ticket: u64 },
    /// By itself.
    Fixed(Instant),
}

impl LeaseEnd {
    fn time(self, vouched: Vouched) -> Instant {
        match self {
            Self::Kept { .. } => vouched.until,
            Self::Fixed(end) => end.min(vouched.until),
        }
    }
}

impl HeldLock {
    pub(super) fn new(shared: Arc<Shared>, hold: Arc<Hold>, grant: Grant) -> Self {
        Self { shared, hold, grant, held: Some(watch::Sender::new(())) }
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.hold.name()
    }

    pub(crate) fn holder(&self) -> Cow<'_, str> {
        self.hold.holder()
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.grant.token
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Loss {
        self.hold.loss()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.vouched_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(now()))
    }

    /// When an answer should have come to what is sent now.
    pub(crate) fn answer_limit(&self) -> Alarm {
        self.shared.thread.alarm(now() + self.shared.links.limits.answer)
    }

    /// Until when it can be vouched for, unless it is lost. A process that was forked from its holder has not got it.
    fn vouched_until(&self) -> Option<Instant> {
        let vouched = self.hold.vouched();
        let until = self.grant.end.time(vouched);
        (vouched.era == self.grant.era && until > now() && self.shared.thread.is_here()).then_some(until)
    }

    /// Resolves when it is lost; never once it was released.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut vouched = self.hold.watch();
        let mut held = self.held.as_ref().map(watch::Sender::subscribe);
        let (Grant { era, end, .. }, thread) = (self.grant, self.shared.thread.clone());
        async move {
            let Some(held) = &mut held else { return pending().await };
            loop {
                let known = *vouched.borrow_and_update();
                let until = end.time(known);
                if known.era != era || until <= now() || !thread.is_here() {
                    return;
                }
                tokio::select! {
                    biased;
                    // Only ever an error: the guard has gone.
                    _ = held.changed() => return pending().await,
                    () = thread.alarm(until) => {}
                    // Renewed or void, which the next round finds out. An error: the hold is gone, and is renewed no
                    // more.
                    changed = vouched.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// Gives it back, and waits for the server's word. What is sent is on its way before this is awaited.
    pub(crate) fn release(&mut self) -> impl Future<Output = Result<(), Error>> + use<> {
        let (name, outcome) = (self.hold.key.clone(), self.give_back());
        async move {
            match outcome {
                // There was nothing to be given back: it was lost before.
                None => Err(Error::new(ErrorKind::Lost, &name)),
                // Without an answer: the client's thread has ended, with the program.
                Some(outcome) => outcome.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, &name))),
            }
        }
    }

    /// Begins to give it back, if there is anything to be given back.
    fn give_back(&mut self) -> Option<Outcome> {
        self.held.take().filter(|_| self.shared.thread.is_here())?;
        let Grant { side, era, lease, end, .. } = self.grant;
        if let LeaseEnd::Kept { ticket } = end {
            self.shared.watchdog.unwatch(&self.hold, ticket);
        }
        let vouched = self.vouched_until();
        let extent = self.hold.guard_goes(side, era)?;
        Some(giving_back::begin(&self.shared, self.hold.clone(), side, extent, lease, vouched))
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        drop(self.give_back());
    }
}
