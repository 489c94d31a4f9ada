//! All that is kept in memory of waiters, by their tickets. Which client a ticket belongs to does not matter here.
//!
//! What is to be done for them, and when, is on the agenda: see `upkeep.rs`.

use super::Map;
use super::agenda::{Agenda, Hold, Notes};
use super::alarms::{Alarm, Alarms, Slot};
use super::namesakes::Namesakes;
use super::queue::{Left, LockId, LockName, QueueFull, QueueSummary, Queues, Ticket};
use super::statistics::Counters;
use crate::lock::{Side, UnixMs, Wish};
use std::rc::Rc;

/// `R` is the client that gets the outcome of a wait. Dropping it unblocks the client without an answer.
pub struct Table<R> {
    pub(super) queues: Queues<Wait<R>, Notes>,
    pub(super) alarms: Alarms,
    pub(super) agenda: Agenda,
    pub counters: Counters,
    /// The times of the first and the last of the grants under way.
    serving: Option<(UnixMs, UnixMs)>,
    /// Waiters that were granted their lock and have not yet been answered.
    undelivered: Map<Ticket, Hold>,
    namesakes: Namesakes,
}

/// A waiter, and the alarm for the end of its time.
pub(super) struct Wait<R> {
    waiter: Waiter<R>,
    deadline: Option<Slot>,
}

pub struct Waiter<R> {
    pub recipient: R,
    pub wish: Wish<Rc<[u8]>>,
}

/// A waiter that was granted its lock.
pub struct Granted<R> {
    pub waiter: Waiter<R>,
    /// Whether others wait for the lock under the same name.
    pub has_namesakes: bool,
}

/// The waiter to serve next.
#[derive(Clone, Debug)]
pub struct Next {
    pub ticket: Ticket,
    pub wish: Wish<Rc<[u8]>>,
}

/// A waiter as people see it.
pub struct Queued<'a, R> {
    pub waiter: &'a Waiter<R>,
    /// When the waiter came.
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            alarms: Alarms::default(),
            agenda: Agenda::default(),
            counters: Counters::default(),
            serving: None,
            undelivered: Map::default(),
            namesakes: Namesakes::default(),
        }
    }
}

impl<R> Table<R> {
    /// Puts a new waiter behind the others.
    ///
    /// # Errors
    /// If `limit` clients wait already, over all locks. The waiter is dropped.
    pub fn join(
        &mut self,
        lock: LockName<'_>,
        waiter: Waiter<R>,
        now: UnixMs,
        limit: usize,
        deadline: Option<UnixMs>,
    ) -> Result<(Ticket, LockId), QueueFull> {
        let holder = Rc::clone(&waiter.wish.holder);
        let (ticket, lock) = self.queues.join(lock, Wait { waiter, deadline: None }, now, limit)?;
        self.namesakes.insert(lock, &holder, ticket);
        if let Some(deadline) = deadline {
            self.set_deadline(ticket, deadline);
        }
        self.begin_patrol(now);
        self.counters.waits = self.counters.waits.wrapping_add(1);
        Ok((ticket, lock))
    }

    pub(super) fn set_deadline(&mut self, ticket: Ticket, time: UnixMs) {
        if let Some(wait) = self.queues.waiter_mut(ticket) {
            wait.deadline = Some(self.alarms.set(time, Alarm::Deadline(ticket)));
        }
    }

    /// The number of clients that wait, over all locks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.queues.length()
    }

    /// The number of locks with waiters.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.queues.locks()
    }

    /// The length of the longest queue.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.queues.longest()
    }

    /// When the waiter came that has waited longest.
    #[must_use]
    pub fn oldest_since(&self) -> Option<UnixMs> {
        self.queues.since(self.queues.oldest()?)
    }

    /// See [`Queues::to_be_shown`].
    pub fn to_be_shown(
        &self,
        database: i32,
        limit: usize,
        may_be_shown: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = QueueSummary> {
        self.queues.to_be_shown(database, limit, may_be_shown)
    }

    /// Whether a client waits for this lock.
    #[must_use]
    pub fn is_waited_for(&self, lock: LockName<'_>) -> bool {
        self.queues.find(lock).is_some()
    }

    /// The number of clients that wait for this lock.
    #[must_use]
    pub fn length_of(&self, lock: LockName<'_>) -> usize {
        self.queues.length_of(lock)
    }

    /// The waiters of a lock, from the first to the last.
    pub fn queue(&self, lock: LockName<'_>) -> impl Iterator<Item = Queued<'_, R>> {
        self.queues.waiters(lock).map(|(ticket, wait)| Queued {
            waiter: &wait.waiter,
            since: self.queues.since(ticket).unwrap_or_default(),
            deadline: wait.deadline.map(|slot| slot.time),
        })
    }

    pub(super) fn first(&self, lock: LockId) -> Option<Next> {
        self.queues.first(lock).map(|(ticket, wait)| next(ticket, &wait.waiter))
    }

    /// The first waiter for a lock under this name that came after `after`.
    pub(super) fn namesake(&self, lock: LockId, holder: &[u8], after: Option<Ticket>) -> Option<Next> {
        self.namesakes.after(lock, holder, after).find_map(|ticket| {
            let waiter = &self.queues.waiter(ticket)?.waiter;
            let is_one = *waiter.wish.holder == *holder && self.queues.lock_of(ticket) == Some(lock);
            is_one.then(|| next(ticket, waiter))
        })
    }

    /// Takes out a waiter that is granted its lock now, and remembers the grant until the waiter is answered. `end` is
    /// when the lock's lease ends now, if that has changed.
    pub(super) fn grant(&mut self, ticket: Ticket, now: UnixMs, end: Option<UnixMs>) -> Option<Granted<R>> {
        let lock = self.queues.lock_of(ticket)?;
        if self.queues.kept(lock).is_some_and(|notes| notes.released) {
            self.counters.hand_offs = self.counters.hand_offs.wrapping_add(1);
        }
        let left = self.queues.serve(ticket)?;
        let has_namesakes = self.forget(ticket, &left);
        let Left { waiter: Wait { waiter, .. }, database, key, since, .. } = left;
        self.counters.waited.add(now.saturating_sub(since));
        self.serving = Some((self.serving.map_or(now, |(first, _)| first), now));
        let own_end = waiter.wish.lease.end(now).unwrap_or(UnixMs::MAX);
        // A read hold has a lease of its own.
        let end = end.filter(|_| waiter.wish.side != Side::Read).unwrap_or(own_end);
        let hold = Hold { database, key, wish: waiter.wish.clone(), end, was_postponed: false };
        self.undelivered.insert(ticket, hold);
        Some(Granted { waiter, has_namesakes })
    }

    /// How long the grants since the last call took, if there were any.
    pub fn take_serving_ms(&mut self) -> Option<i64> {
        self.serving.take().map(|(first, last)| last.saturating_sub(first))
    }

    /// Notes that the waiter has got the answer with its grant.
    pub fn delivered(&mut self, ticket: Ticket) {
        self.undelivered.remove(&ticket);
    }

    /// Takes a waiter out. The waiters behind it may have waited for it only.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waiter<R>> {
        let left = self.queues.leave(ticket)?;
        self.forget(ticket, &left);
        if left.was_first {
            self.changed(left.lock);
        }
        Some(left.waiter.waiter)
    }

    /// Returns whether others wait for the lock under the same name.
    fn forget(&mut self, ticket: Ticket, left: &Left<Wait<R>, Notes>) -> bool {
        let Wait { waiter, deadline } = &left.waiter;
        let lease_end = left.closed.as_ref().and_then(|notes| notes.lease_end);
        for slot in [*deadline, lease_end].into_iter().flatten() {
            self.alarms.cancel(slot);
        }
        self.namesakes.remove(left.lock, &waiter.wish.holder, ticket)
    }

    /// Whether the waiter was granted its lock, and has not been answered.
    #[must_use]
    pub fn is_undelivered(&self, ticket: Ticket) -> bool {
        self.undelivered.contains_key(&ticket)
    }

    /// Takes out a waiter that is gone. Has its lock looked at, or the hold that it was granted revoked.
    pub fn gone(&mut self, ticket: Ticket) -> Option<Waiter<R>> {
        if let Some(hold) = self.undelivered.remove(&ticket) {
            self.revoke(hold);
        }
        let waiter = self.leave(ticket)?;
        self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
        Some(waiter)
    }

    /// Whether nothing at all is remembered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let nobody = self.queues.is_empty() && self.namesakes.is_empty();
        nobody && self.undelivered.is_empty() && self.wakes_at(UnixMs::MIN).is_none()
    }
}

fn next<R>(ticket: Ticket, waiter: &Waiter<R>) -> Next {
    Next { ticket, wish: waiter.wish.clone() }
}
