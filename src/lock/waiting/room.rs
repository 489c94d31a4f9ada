//! Everything that is kept in memory of those who wait, in one place.

use super::Map;
use super::queue::Left;
use crate::lock::{Acquire, Alarms, Kind, LockName, QueueFull, Queues, Ticket, UnixMs, Waits};
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

/// A client that is kept waiting. Dropping it lets it go without an answer.
pub trait Client {
    /// Tells clients apart while they are kept, and until they are told of their grant.
    type Id: Copy + Eq + Hash;

    fn id(&self) -> Self::Id;
}

pub struct Room<C: Client> {
    pub queues: Queues<Waiter<C>>,
    pub alarms: Alarms,
    /// Locks that something has happened to.
    pub unsettled: Vec<(i32, Rc<[u8]>)>,
    /// Granted to clients that were gone before they could be told, to be taken back.
    undelivered: Vec<Hold>,
    /// The same, when this is not the time, and when it is tried again.
    put_off: Vec<Hold>,
    try_again: Option<UnixMs>,
    pub counters: Counters,
    /// The first and the last moment of the grants that are being made.
    serving: Option<(UnixMs, UnixMs)>,
    kept: Map<C::Id, Kept>,
    /// Granted, and not yet told so.
    delivering: Map<C::Id, Hold>,
    /// How many wait under the same name, by its hash: mostly one, and then nobody else need be looked for.
    namesakes: Map<u64, usize>,
    hasher: RandomState,
}

/// How a kept client is found again.
#[derive(Clone, Copy)]
struct Kept {
    ticket: Ticket,
    /// Of the name it waits under, the hash.
    name: u64,
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
    /// Whether nobody waits for the lock any more.
    pub was_last: bool,
    /// Whether others wait under the same name, for whichever lock.
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

/// Counted from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub waits: u64,
    /// How long those waited who were granted their lock.
    pub waited: Waits,
    /// Grants to waiters by the release, or the break, that made the lock free.
    pub hand_offs: u64,
    pub timeouts: u64,
    pub cancelled: u64,
    /// Leases that ran out while someone waited for the lock.
    pub lease_expiries: u64,
    pub breaks: u64,
}

impl Counters {
    /// All grants since there were so many are hand-offs.
    pub fn count_hand_offs(&mut self, granted_before: u64) {
        let granted = self.waited.count().wrapping_sub(granted_before);
        self.hand_offs = self.hand_offs.wrapping_add(granted);
    }
}

impl<C: Client> Default for Room<C> {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            alarms: Alarms::default(),
            unsettled: Vec::new(),
            undelivered: Vec::new(),
            put_off: Vec::new(),
            try_again: None,
            serving: None,
            counters: Counters::default(),
            kept: Map::default(),
            delivering: Map::default(),
            namesakes: Map::default(),
            hasher: RandomState::default(),
        }
    }
}

impl<C: Client> Room<C> {
    /// Puts a waiter that comes now behind the others.
    ///
    /// # Errors
    /// If `most` wait already, over all locks. The waiter is let go.
    pub fn join(
        &mut self,
        lock: LockName<'_>,
        waiter: Waiter<C>,
        now: UnixMs,
        most: usize,
        deadline: Option<UnixMs>,
    ) -> Result<(), QueueFull> {
        let (client, name) = (waiter.client.id(), self.hasher.hash_one(&waiter.holder));
        let ticket = self.queues.join(lock, waiter, now, most)?;
        self.kept.insert(client, Kept { ticket, name });
        let namesakes = self.namesakes.entry(name).or_default();
        *namesakes = namesakes.saturating_add(1);
        if let Some(deadline) = deadline {
            self.alarms.set_deadline(ticket, deadline);
        }
        self.counters.waits = self.counters.waits.wrapping_add(1);
        Ok(())
    }

    #[must_use]
    pub fn first(&self, lock: LockName<'_>) -> Option<Next> {
        self.queues.first(lock).map(|(ticket, waiter)| next(ticket, waiter))
    }

    /// All who wait for this lock under this name.
    #[must_use]
    pub fn namesakes(&self, lock: LockName<'_>, holder: &Rc<[u8]>) -> Vec<Next> {
        let waiters = self.queues.waiters(lock).filter(|(_, waiter)| waiter.holder == *holder);
        waiters.map(|(ticket, waiter)| next(ticket, waiter)).collect()
    }

    /// Takes out a waiter that is granted its lock now, and remembers the grant until it is told.
    /// `end` is when the lock's lease ends now, if that has changed.
    pub fn grant(&mut self, ticket: Ticket, now: UnixMs, end: Option<UnixMs>) -> Option<Granted<C>> {
        let left = self.queues.serve(ticket)?;
        let has_namesakes = self.forget(ticket, &left);
        let Left { waiter, database, key, since, was_last } = left;
        self.counters.waited.add(now.saturating_sub(since));
        self.serving = Some((self.serving.map_or(now, |(first, _)| first), now));
        let own_end = waiter.want.lease.end(now).unwrap_or(UnixMs::MAX);
        // A read hold has a lease of its own.
        let end = end.filter(|_| waiter.kind != Kind::Read).unwrap_or(own_end);
        let hold = Hold { database, key, holder: Rc::clone(&waiter.holder), kind: waiter.kind, end, put_off: false };
        self.delivering.insert(waiter.client.id(), hold);
        Some(Granted { waiter, was_last, has_namesakes })
    }

    /// How long it took to grant what was granted since this was last asked, if anything was.
    pub fn take_serving_ms(&mut self) -> Option<i64> {
        self.serving.take().map(|(first, last)| last.saturating_sub(first))
    }

    /// The client has been told.
    pub fn delivered(&mut self, client: C::Id) {
        self.delivering.remove(&client);
    }

    /// Takes a waiter out.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Waiter<C>> {
        let left = self.queues.leave(ticket)?;
        self.forget(ticket, &left);
        Some(left.waiter)
    }

    /// Tells whether others wait under the same name still, for whichever lock.
    fn forget(&mut self, ticket: Ticket, left: &Left<Waiter<C>>) -> bool {
        self.alarms.forget_deadline(ticket);
        if left.was_last {
            self.alarms.forget_lock(LockName { database: left.database, key: &left.key });
        }
        let Some(Kept { name, .. }) = self.kept.remove(&left.waiter.client.id()) else { return false };
        match self.namesakes.get_mut(&name) {
            Some(waiters) if *waiters > 1 => {
                *waiters = waiters.saturating_sub(1);
                true
            }
            _ => {
                self.namesakes.remove(&name);
                false
            }
        }
    }

    /// Whether the client was granted its lock, and has not been told.
    #[must_use]
    pub fn is_untold(&self, client: C::Id) -> bool {
        self.delivering.contains_key(&client)
    }

    /// A client is gone. What it waited for, or was granted and not yet told, is to be looked at.
    pub fn gone(&mut self, client: C::Id) -> Option<Waiter<C>> {
        self.undelivered.extend(self.delivering.remove(&client));
        let Kept { ticket, .. } = self.kept.get(&client).copied()?;
        let lock = self.lock_of(ticket);
        let waiter = self.leave(ticket)?;
        self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
        self.unsettled.extend(lock);
        Some(waiter)
    }

    /// Whether something is to be put in order at once.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty() || !self.undelivered.is_empty()
    }

    /// The holds to be taken back, those that were put off among them.
    pub fn take_undelivered(&mut self) -> Vec<Hold> {
        let mut holds = std::mem::take(&mut self.undelivered);
        holds.append(&mut self.put_off);
        self.try_again = None;
        holds
    }

    /// Leaves a hold to another time.
    pub fn put_off(&mut self, hold: Hold, time: UnixMs) {
        self.try_again = Some(self.try_again.map_or(time, |earlier| earlier.min(time)));
        self.put_off.push(Hold { put_off: true, ..hold });
    }

    /// When something is to be done next.
    #[must_use]
    pub fn next_alarm(&self) -> Option<UnixMs> {
        [self.alarms.next(), self.try_again].into_iter().flatten().min()
    }

    /// Somebody else decides from now on what becomes of the holds here.
    pub fn forget_grants(&mut self) {
        self.undelivered.clear();
        self.put_off.clear();
        self.try_again = None;
    }

    /// The lock that a waiter waits for.
    #[must_use]
    pub fn lock_of(&self, ticket: Ticket) -> Option<(i32, Rc<[u8]>)> {
        self.queues.lock_of(ticket).map(|(database, key)| (database, Rc::clone(key)))
    }

    /// Whether nothing at all is remembered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let nobody = self.queues.is_empty() && self.kept.is_empty() && self.namesakes.is_empty();
        let nothing = !self.is_unsettled() && self.put_off.is_empty() && self.delivering.is_empty();
        nobody && nothing && self.alarms.next().is_none()
    }
}

fn next<C>(ticket: Ticket, waiter: &Waiter<C>) -> Next {
    Next { ticket, holder: Rc::clone(&waiter.holder), kind: waiter.kind, want: waiter.want }
}
