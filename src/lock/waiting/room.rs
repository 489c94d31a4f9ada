//! Everything that is kept in memory of those who wait, in one place.
//!
//! What is to be done for them, and when, is in `agenda.rs`.

use super::Map;
use super::agenda::{Agenda, Care};
use super::alarms::{Alarm, Alarms, Slot};
use super::namesakes::Namesakes;
use super::queue::{Left, LockId, LockName, QueueFull, Queues, Ticket, Waited};
use super::waits::Counters;
use crate::lock::{Acquire, Kind, UnixMs};
use std::hash::Hash;
use std::rc::Rc;

/// A client that is kept waiting. Dropping it lets it go without an answer.
pub trait Client {
    /// Tells clients apart while they are kept, and until they are told of their grant.
    type Id: Copy + Eq + Hash;

    fn id(&self) -> Self::Id;
}

pub struct Room<C: Client> {
    pub(super) queues: Queues<Seat<C>, Care>,
    pub(super) alarms: Alarms,
    pub(super) agenda: Agenda,
    pub counters: Counters,
    /// The first and the last moment of the grants that are being made.
    serving: Option<(UnixMs, UnixMs)>,
    by_client: Map<C::Id, Ticket>,
    /// Granted, and not yet told so.
    delivering: Map<C::Id, Hold>,
    namesakes: Namesakes,
}

/// A waiter, and the alarm for the end of its time.
pub(super) struct Seat<C> {
    waiter: Waiter<C>,
    deadline: Option<Slot>,
}

pub struct Waiter<C> {
    pub client: C,
    pub holder: Rc<[u8]>,
    pub kind: Kind,
    pub want: Acquire,
}

/// A hold that was granted to a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub database: i32,
    pub key: Rc<[u8]>,
    pub holder: Rc<[u8]>,
    pub kind: Kind,
    /// When its lease ends, as it was granted.
    pub end: UnixMs,
    /// Whether it should have been taken back before.
    pub put_off: bool,
}

/// A waiter that was granted its lock.
pub struct Granted<C> {
    pub waiter: Waiter<C>,
    /// Whether others wait for the lock under the same name.
    pub has_namesakes: bool,
}

/// Who is to be served next.
#[derive(Clone, Debug)]
pub struct Next {
    pub ticket: Ticket,
    pub holder: Rc<[u8]>,
    pub kind: Kind,
    pub want: Acquire,
}

/// One who waits, as people see it.
pub struct Queued<'a, C> {
    pub waiter: &'a Waiter<C>,
    /// When it came.
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
}

impl<C: Client> Default for Room<C> {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            alarms: Alarms::default(),
            agenda: Agenda::default(),
            counters: Counters::default(),
            serving: None,
            by_client: Map::default(),
            delivering: Map::default(),
            namesakes: Namesakes::default(),
        }
    }
}

impl<C: Client> Room<C> {
    /// Puts a waiter that comes now behind the others.
    ///
    /// # Errors
    /// If `limit` wait already, over all locks. The waiter is let go.
    pub fn join(
        &mut self,
        lock: LockName<'_>,
        waiter: Waiter<C>,
        now: UnixMs,
        limit: usize,
        deadline: Option<UnixMs>,
    ) -> Result<LockId, QueueFull> {
        let (client, holder) = (waiter.client.id(), Rc::clone(&waiter.holder));
        let (ticket, lock) = self.queues.join(lock, Seat { waiter, deadline: None }, now, limit)?;
        self.by_client.insert(client, ticket);
        self.namesakes.insert(lock, &holder, ticket);
        if let Some(deadline) = deadline {
            self.set_deadline(ticket, deadline);
        }
        self.begin_patrol(now);
        self.counters.waits = self.counters.waits.wrapping_add(1);
        Ok(lock)
    }

    pub(super) fn set_deadline(&mut self, ticket: Ticket, time: UnixMs) {
        if let Some(seat) = self.queues.waiter_mut(ticket) {
            seat.deadline = Some(self.alarms.set(time, Alarm::Deadline(ticket)));
        }
    }

    /// How many wait, over all locks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.queues.length()
    }

    /// How many locks are waited for.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.queues.locks()
    }

    /// How many wait for the lock that most wait for.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.queues.longest()
    }

    /// When the first came of all who wait.
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
    ) -> impl Iterator<Item = Waited<'_>> {
        self.queues.to_be_shown(database, limit, may_be_shown)
    }

    /// Whether anyone waits for this lock.
    #[must_use]
    pub fn is_waited_for(&self, lock: LockName<'_>) -> bool {
        self.queues.find(lock).is_some()
    }

    /// How many wait for this lock.
    #[must_use]
    pub fn length_of(&self, lock: LockName<'_>) -> usize {
        self.queues.length_of(lock)
    }

    /// Who waits for a lock, from the first to the last.
    pub fn queue(&self, lock: LockName<'_>) -> impl Iterator<Item = Queued<'_, C>> {
        self.queues.waiters(lock).map(|(ticket, seat)| Queued {
            waiter: &seat.waiter,
            since: self.queues.since(ticket).unwrap_or_default(),
            deadline: seat.deadline.map(|slot| slot.time),
        })
    }

    pub(super) fn first(&self, lock: LockId) -> Option<Next> {
        self.queues.first(lock).map(|(ticket, seat)| next(ticket, &seat.waiter))
    }

    /// The first who waits for a lock under this name, of those who came after that one.
    pub(super) fn namesake(&self, lock: LockId, holder: &[u8], after: Option<Ticket>) -> Option<Next> {
        self.namesakes.after(lock, holder, after).find_map(|ticket| {
            let waiter = &self.queues.waiter(ticket)?.waiter;
            let is_one = *waiter.holder == *holder && self.queues.lock_of(ticket) == Some(lock);
            is_one.then(|| next(ticket, waiter))
        })
    }

    /// Takes out a waiter that is granted its lock now, and remembers the grant until it is told.
    /// `end` is when the lock's lease ends now, if that has changed.
    pub(super) fn grant(&mut self, ticket: Ticket, now: UnixMs, end: Option<UnixMs>) -> Option<Granted<C>> {
        let lock = self.queues.lock_of(ticket)?;
        if self.queues.kept(lock).is_some_and(|care| care.released) {
            self.counters.hand_offs = self.counters.hand_offs.wrapping_add(1);
        }
        let left = self.queues.serve(ticket)?;
        let has_namesakes = self.forget(ticket, &left);
        let Left { waiter: Seat { waiter, .. }, database, key, since, .. } = left;
        self.counters.waited.add(now.saturating_sub(since));
        self.serving = Some((self.serving.map_or(now, |(first, _)| first), now));
        let own_end = waiter.want.lease.end(now).unwrap_or(UnixMs::MAX);
        // A read hold has a lease of its own.
        let end = end.filter(|_| waiter.kind != Kind::Read).unwrap_or(own_end);
        let hold = Hold { database, key, holder: Rc::clone(&waiter.holder), kind: waiter.kind, end, put_off: false };
        self.delivering.insert(waiter.client.id(), hold);
        Some(Granted { waiter, has_namesakes })
    }

    /// How long it took to grant what was granted since this was last asked, if anything was.
    pub fn take_serving_ms(&mut self) -> Option<i64> {
        self.serving.take().map(|(first, last)| last.saturating_sub(first))
    }

    /// The client has been told.
    pub fn delivered(&mut self, client: C::Id) {
        self.delivering.remove(&client);
    }

    /// Takes a waiter out. Those behind it may have been waiting for it only.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waiter<C>> {
        let left = self.queues.leave(ticket)?;
        self.forget(ticket, &left);
        if left.was_first {
            self.changed(left.lock);
        }
        Some(left.waiter.waiter)
    }

    /// Tells whether others wait for the lock under the same name.
    fn forget(&mut self, ticket: Ticket, left: &Left<Seat<C>, Care>) -> bool {
        let Seat { waiter, deadline } = &left.waiter;
        let lease_end = left.closed.as_ref().and_then(|care| care.lease_end);
        for slot in [*deadline, lease_end].into_iter().flatten() {
            self.alarms.cancel(slot);
        }
        self.by_client.remove(&waiter.client.id());
        self.namesakes.remove(left.lock, &waiter.holder, ticket)
    }

    /// Whether the client was granted its lock, and has not been told.
    #[must_use]
    pub fn is_untold(&self, client: C::Id) -> bool {
        self.delivering.contains_key(&client)
    }

    /// A client is gone. What it waited for, or was granted and not yet told, is to be looked at.
    pub fn gone(&mut self, client: C::Id) -> Option<Waiter<C>> {
        if let Some(hold) = self.delivering.remove(&client) {
            self.take_back(hold);
        }
        let ticket = self.by_client.get(&client).copied()?;
        let waiter = self.leave(ticket)?;
        self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
        Some(waiter)
    }

    /// Whether nothing at all is remembered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let nobody = self.queues.is_empty() && self.by_client.is_empty() && self.namesakes.is_empty();
        nobody && self.delivering.is_empty() && self.wakes_at(UnixMs::MIN).is_none()
    }
}

fn next<C>(ticket: Ticket, waiter: &Waiter<C>) -> Next {
    Next { ticket, holder: Rc::clone(&waiter.holder), kind: waiter.kind, want: waiter.want }
}
