//! Which leases are due for renewal, and when. No clock and no server in here: the time is told.

use crate::core::hold::Hold;
use crate::core::pause::Pause;
use crate::link::Fault;
use crate::link::request::Leased;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A lease is renewed when this part of it is over.
const INTERVALS_PER_LEASE: u32 = 3;

/// So soon is made whole what was granted on a short lease. Much that is done under a lock is over by then, and costs no
/// renewal.
const WHOLE_AFTER: Duration = Duration::from_millis(50);

/// A lease that is due within this part of itself is renewed together with one that is due now: leases that began at
/// any time come together in few requests.
const EARLY_PARTS: u32 = 6;

/// After a failure the next try comes when this part of what is left is over, but neither in a hurry nor at leisure;
/// the first ones come sooner, as a connection that broke is most often made anew at once.
const RETRY_PARTS: u32 = 8;
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Schedule {
    watched: HashMap<Id, Watched>,
    due: BTreeSet<(Instant, Id)>,
    tickets: u64,
}

/// A hold's address, which is its own for as long as it is watched.
type Id = usize;

struct Watched {
    hold: Arc<Hold>,
    lease: Duration,
    /// How long the lease is that runs.
    running: Duration,
    guards: usize,
    /// Another one each time that a hold is watched anew, so that an old renewal's answer says nothing about it.
    ticket: u64,
    /// Not while a renewal is under way.
    due: Option<Instant>,
    /// The time between tries, since renewals fail.
    failing: Option<Pause>,
    /// The connection broke while a renewal was under way, which may have been answered before that.
    again: bool,
}

/// A lease that is to be renewed.
pub(crate) struct Due {
    pub hold: Arc<Hold>,
    pub lease: Duration,
    pub running: Duration,
    ticket: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Renewed {
    Yes,
    /// The server says that nothing is held.
    Gone,
    /// The server says that something else is there.
    Overwritten(Fault),
    /// The answer came when the lease could not be vouched for any more.
    TooLate,
    /// There was no answer, or an error.
    Failed(Fault),
    /// Its guards had gone, so the server was not asked.
    Unasked,
}

impl Schedule {
    /// One more guard whose lease is to be kept alive.
    /// Returns the ticket that it is given up with.
    pub(super) fn add(&mut self, hold: &Arc<Hold>, lease: Duration, running: Leased, now: Instant) -> u64 {
        let Self { watched, due, tickets } = self;
        let watched = watched.entry(id(hold)).or_insert_with(|| {
            let Leased { after, length } = running;
            let regular = after + length / INTERVALS_PER_LEASE;
            let first = if length < lease { regular.min(now + WHOLE_AFTER) } else { regular };
            due.insert((first, id(hold)));
            *tickets += 1;
            let (hold, due) = (hold.clone(), Some(first));
            Watched { hold, lease, running: length, guards: 0, ticket: *tickets, due, failing: None, again: false }
        });
        watched.guards += 1;
        watched.lease = watched.lease.max(lease);
        watched.ticket
    }

    /// One guard less.
    pub(super) fn remove(&mut self, hold: &Hold, ticket: u64) {
        let Some(watched) = self.watched.get_mut(&id(hold)).filter(|it| it.ticket == ticket) else { return };
        watched.guards -= 1;
        if watched.guards == 0 {
            self.forget(hold);
        }
    }

    /// Whether there is nothing to keep alive.
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// Makes due now what is affected. What fails already is tried again in its own time.
    pub(super) fn hasten(&mut self, now: Instant, is_affected: impl Fn(&[u8]) -> bool) {
        let Self { watched, due, .. } = self;
        for (id, watched) in watched.iter_mut().filter(|(_, it)| it.failing.is_none() && is_affected(&it.hold.key)) {
            match &mut watched.due {
                None => watched.again = true,
                Some(time) if *time > now => {
                    due.remove(&(*time, *id));
                    due.insert((now, *id));
                    *time = now;
                }
                Some(_) => {}
            }
        }
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Takes what is to be renewed now. Each has to be reported on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Due> {
        let mut taken = Vec::new();
        if self.next().is_none_or(|next| next > now) {
            return taken;
        }
        let Self { watched, due, .. } = self;
        due.retain(|(time, id)| {
            let Some(watched) = watched.get_mut(id) else { return false };
            let stays = *time > now + watched.lease / EARLY_PARTS;
            if !stays {
                watched.due = None;
                let Watched { ref hold, lease, running, ticket, .. } = *watched;
                taken.push(Due { hold: hold.clone(), lease, running, ticket });
            }
            stays
        });
        taken
    }

    /// Whether this renewal is still wanted: its guards may have gone by now.
    pub(super) fn wants(&self, due: &Due) -> bool {
        self.watched.get(&id(&due.hold)).is_some_and(|watched| watched.ticket == due.ticket)
    }

    /// When to renew again, after a renewal that was wanted and began at that time.
    pub(super) fn report(&mut self, due: &Due, renewed: &Renewed, began: Instant, now: Instant) {
        let left = due.hold.vouched().until.saturating_duration_since(now);
        let Some(watched) = self.watched.get_mut(&id(&due.hold)) else { return };
        let again = std::mem::take(&mut watched.again);
        let next = match renewed {
            Renewed::Yes => {
                (watched.failing, watched.running) = (None, due.lease);
                if again { now } else { began + due.lease / INTERVALS_PER_LEASE }
            }
            Renewed::Failed(_) if !left.is_zero() => {
                let soon = watched.failing.get_or_insert_with(Pause::short).next();
                now + (left / RETRY_PARTS).clamp(RETRY_MIN, RETRY_MAX).min(soon)
            }
            _ => return self.forget(&due.hold),
        };
        watched.due = Some(next);
        self.due.insert((next, id(&due.hold)));
    }

    fn forget(&mut self, hold: &Hold) {
        let watched = self.watched.remove(&id(hold));
        if let Some(due) = watched.and_then(|watched| watched.due) {
            self.due.remove(&(due, id(hold)));
        }
    }
}

fn id(hold: &Hold) -> Id {
    std::ptr::from_ref(hold).addr()
}
