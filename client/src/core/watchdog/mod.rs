//! Keeps leases alive: one task for all guards of a client.
//!
//! What is due is sent in one piece to each server, all servers at once and each on its own, so that one that is slow
//! or dead delays no other's. A renewal that fails is tried again for as long as the lease can still be vouched for.
//! The task decides nothing about loss: a guard whose deadline passes is lost whether or not this task ever runs again.
//!
//! A server whose connection breaks may come back without its locks, and give them to others. So what is there is
//! renewed at once, whenever it would have been due: the answer says whether it is held.

mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use schedule::{Due, Renewed};

use crate::core::hold::Hold;
use crate::foreign::log;
use crate::link::Fault;
use crate::link::request::Leased;
use crate::loss::Loss;
use schedule::Schedule;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{Level, debug, trace, warn};

/// How many renewals go in one piece: more would keep the server from its other clients for too long.
const BATCH_MAX: usize = 1_000;

/// A renewal may take this part of the lease. Two thirds are left when it begins, so there is time for more.
const ATTEMPTS_PER_LEASE: u32 = 6;

/// The servers, as the watchdog sees them.
pub(crate) trait Servers: Send + Sync + 'static {
    /// What is at one place can be renewed together.
    type Place: Eq + Hash + Send + Sync;

    fn place(&self, key: &[u8]) -> Self::Place;

    /// Resolves when connections have broken over which leases are renewed. Cancel safe.
    fn broken_places(&self) -> impl Future<Output = Vec<Self::Place>> + Send;

    /// Sends the renewals in one piece, those that are still `wanted` right before. Returns when that was, and an
    /// answer for each.
    fn renew(
        &self,
        place: &Self::Place,
        leases: &[Due],
        limit: Duration,
        wanted: impl Fn(&Due) -> bool + Send + Sync,
    ) -> impl Future<Output = (Instant, Vec<Renewed>)> + Send;
}

#[derive(Default)]
pub(crate) struct Watchdog {
    schedule: Mutex<Schedule>,
    changed: Notify,
}

impl Watchdog {
    /// Runs until it is dropped, with its client.
    pub(crate) async fn run(self: Arc<Self>, servers: Arc<impl Servers>) {
        let broken = servers.broken_places();
        tokio::pin!(broken);
        loop {
            let due = self.schedule().take_due(Instant::now());
            for (place, leases) in by_place(&*servers, due) {
                tokio::spawn(self.clone().renew(servers.clone(), place, leases));
            }
            let next = self.schedule().next();
            let is_idle = self.schedule().is_idle();
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                places = &mut broken, if !is_idle => {
                    self.schedule().hasten(Instant::now(), |key| places.contains(&servers.place(key)));
                    broken.set(servers.broken_places());
                }
            }
        }
    }

    /// Keeps a lease alive for one more guard: the one that runs, and from then on by so much.
    /// Returns the ticket that it is given up with.
    pub(crate) fn watch(&self, hold: &Arc<Hold>, lease: Duration, running: Leased) -> u64 {
        let mut schedule = self.schedule();
        let next = schedule.next();
        let ticket = schedule.add(hold, lease, running, Instant::now());
        if schedule.next() != next {
            self.changed.notify_one();
        }
        ticket
    }

    pub(crate) fn unwatch(&self, hold: &Hold, ticket: u64) {
        self.schedule().remove(hold, ticket);
    }

    /// Renews what is at one place, one batch after the other. When no answer came to one batch, the next is not sent.
    async fn renew<S: Servers>(self: Arc<Self>, servers: Arc<S>, place: S::Place, leases: Vec<Due>) {
        let limit = leases.iter().map(|due| due.running).min().unwrap_or_default() / ATTEMPTS_PER_LEASE;
        let mut silence = None;
        for batch in leases.chunks(BATCH_MAX) {
            let (began, outcomes) = match silence.take() {
                None => servers.renew(&place, batch, limit, |due| self.schedule().wants(due)).await,
                Some(fault) => (Instant::now(), vec![Renewed::Failed(fault); batch.len()]),
            };
            silence = why_nobody_answered(&outcomes);
            for (due, renewed) in batch.iter().zip(outcomes) {
                self.report(due, renewed, began);
            }
        }
        self.changed.notify_one();
    }

    fn report(&self, due: &Due, renewed: Renewed, began: Instant) {
        let mut schedule = self.schedule();
        if !schedule.wants(due) {
            return;
        }
        let renewed = match renewed {
            Renewed::Yes if !due.hold.renewed(Leased { after: began, length: due.lease }) => Renewed::TooLate,
            renewed => renewed,
        };
        let error = |fault: &Fault| fault.clone().into_error(&due.hold.key);
        match &renewed {
            Renewed::Gone => due.hold.lost(Loss::NotHeld),
            Renewed::Overwritten(fault) => due.hold.lost(Loss::Overwritten(error(fault))),
            Renewed::Failed(fault) => due.hold.not_renewed(error(fault)),
            Renewed::Yes | Renewed::TooLate | Renewed::Unasked => {}
        }
        schedule.report(due, &renewed, began, Instant::now());
        drop(schedule);
        tell(&due.hold, renewed);
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fault of a batch to which no answer came.
fn why_nobody_answered(outcomes: &[Renewed]) -> Option<Fault> {
    let mut fault = None;
    for outcome in outcomes {
        match outcome {
            Renewed::Failed(failure) => fault = Some(failure.clone()),
            Renewed::Unasked => {}
            _ => return None,
        }
    }
    fault
}

fn by_place<S: Servers>(servers: &S, due: Vec<Due>) -> HashMap<S::Place, Vec<Due>> {
    let mut places: HashMap<_, Vec<_>> = HashMap::new();
    for lease in due {
        places.entry(servers.place(&lease.hold.key)).or_default().push(lease);
    }
    places
}

fn tell(hold: &Arc<Hold>, renewed: Renewed) {
    let left = hold.remaining();
    let level = match &renewed {
        Renewed::Unasked => return,
        Renewed::Yes => Level::TRACE,
        Renewed::Failed(_) if !left.is_zero() => Level::DEBUG,
        _ => Level::WARN,
    };
    log(level, || {
        let hold = hold.clone();
        move || {
            let (lock, holder) = (hold.name(), hold.holder());
            match renewed {
                Renewed::Yes => trace!(%lock, %holder, ?left, "renewed"),
                Renewed::Failed(fault) if left.is_zero() => warn!(%lock, %holder, ?fault, "lost: not renewed in time"),
                Renewed::Failed(fault) => debug!(%lock, %holder, ?left, ?fault, "not renewed yet"),
                Renewed::TooLate => warn!(%lock, %holder, "lost: the answer to its renewal came too late"),
                Renewed::Gone => warn!(%lock, %holder, "lost: the server says that it is not held"),
                Renewed::Overwritten(fault) => warn!(%lock, %holder, ?fault, "lost: something else is in its place"),
                Renewed::Unasked => {}
            }
        }
    });
}
