//! The queues: the waiters of each lock, first in first out.
//!
//! Each lock's queue is a list through one common store of waiters, so that joining, serving the first and leaving from
//! the middle each take the same time whatever the length: a waiter that hangs up must not cost its lock a search.
//! A ticket names a waiter for as long as it waits, and no later one, even if its place in the store is used again; a
//! [`LockId`] names a lock for as long as a client waits for it.
//!
//! A waiter that cannot be notified of a grant now is passed over: it is aside until it is put back where its number says.
//!
//! A waiter for several locks has a place in the queue of each: see `claims.rs`.
//!
//! The longest queue and the oldest waiter are kept up to date all the time: operators ask for them every few seconds, and
//! a walk through a million queues would hold the server up each time.

use super::Map;
use super::index::Index;
use super::store::{Alarm, Alarms, Lengths, Links, List, Place, Store, as_count};
use crate::lock::UnixMs;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// A waiter's place, from joining until it leaves. The request that takes its place may have the same ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Grows with each waiter, so that tickets also give the order in the queue.
    number: u64,
    pub(super) place: Place,
}

/// The place at which a new waiter joins the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    Last,
    First,
    /// In the place of this ticket, which has left.
    At(Ticket),
}

/// The first number that a waiter gets. Waiters that join before all others get the numbers below.
const FIRST_NUMBER: u64 = 1 << 62;

/// A lock with waiters, from when the first comes until the last leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    number: u64,
    place: Place,
}

/// A lock's name: a database and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockName<'a> {
    pub database: i32,
    pub key: &'a [u8],
}

/// There is no room for another waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// What an alarm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// This waiter's time is up.
    Deadline(Ticket),
    /// The lease of this lock, for which a client waits, has ended, unless a client has made it longer.
    LeaseEnd(LockId),
}

/// All queues, whatever a waiter is (`W`), and whatever else is kept of a lock (`L`).
pub struct Queues<W, L> {
    /// The locks of each database, by the length of their queues. A database without waiters has no entry.
    databases: Map<i32, Lengths>,
    by_name: Index,
    locks: Store<Queue<L>>,
    waiters: Store<Waiting<W>>,
    /// The waiters that are passed over, and those that were and are back, each by the place of their lock.
    passed_over: BTreeSet<(Place, Ticket)>,
    back: BTreeSet<(Place, Ticket)>,
    /// The waiters that are passed over, by lock and group.
    passed_over_by_group: BTreeSet<(Place, Place, Ticket)>,
    /// All waiters, in the order of coming.
    by_age: List,
    /// All locks; the next in turn is the first.
    turns: List,
    deadlines: Alarms,
    lease_ends: Alarms,
    last_number: u64,
    first_number: u64,
}

#[derive(Debug)]
struct Queue<L> {
    number: u64,
    key: Rc<[u8]>,
    served: u64,
    database: i32,
    length: u32,
    /// The waiters, except those that are or were passed over.
    waiters: List,
    by_length: Links,
    turn: Links,
    lease_end: Alarm,
    kept: L,
}

#[derive(Debug)]
struct Waiting<W> {
    number: u64,
    since: UnixMs,
    deadline: Alarm,
    lock: Place,
    /// Its links in the queue; or, if it is passed over, among the waiters of its group that are passed over.
    in_queue: Links,
    by_age: Links,
    in_group: Links,
    stands: Stands,
    waiter: W,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    InQueue,
    PassedOver,
    Back,
}

/// A waiter that was taken out of its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Left<W> {
    pub waiter: W,
    pub lock: LockId,
    pub database: i32,
    pub key: Rc<[u8]>,
    /// When the waiter came.
    pub since: UnixMs,
    /// Whether no waiter was before it.
    pub was_first: bool,
}

impl<W, L> Default for Queues<W, L> {
    fn default() -> Self {
        Self {
            databases: Map::default(),
            by_name: Index::default(),
            locks: Store::default(),
            waiters: Store::default(),
            passed_over: BTreeSet::default(),
            back: BTreeSet::default(),
            passed_over_by_group: BTreeSet::default(),
            by_age: List::default(),
            turns: List::default(),
            deadlines: Alarms::default(),
            lease_ends: Alarms::default(),
            last_number: FIRST_NUMBER,
            first_number: FIRST_NUMBER,
        }
    }
}

/// Omits the indexes by name and by length: they follow from the queues.
impl<W: fmt::Debug, L: fmt::Debug> fmt::Debug for Queues<W, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queues = formatter.debug_struct("Queues");
        queues.field("locks", &self.locks).field("waiters", &self.waiters).field("passed_over", &self.passed_over);
        queues.field("back", &self.back).field("turns", &self.turns).field("by_age", &self.by_age);
        queues.field("deadlines", &self.deadlines).field("lease_ends", &self.lease_ends).finish_non_exhaustive()
    }
}

impl<W, L: Default> Queues<W, L> {
    /// Whether no client waits for any lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.len() == 0
    }

    /// The number of all waiters, over all locks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.waiters.len()
    }

    /// The number of locks with waiters.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    /// The length of the longest queue.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.databases.values().map(Lengths::longest).max().unwrap_or(0)
    }

    /// The waiter that came first, over all locks.
    #[must_use]
    pub fn oldest(&self) -> Option<Ticket> {
        self.ticket_at(self.by_age.first()?)
    }

    /// A ticket later than every one that was given, and earlier than those to come.
    #[must_use]
    pub fn watermark(&self) -> Ticket {
        Ticket { number: self.last_number, place: Place::MAX }
    }

    /// The waiter that is at a place now.
    #[must_use]
    pub fn ticket_at(&self, place: Place) -> Option<Ticket> {
        self.waiters.get(place).map(|waiting| Ticket { number: waiting.number, place })
    }

    /// The lock of this name, if a client waits for it.
    #[must_use]
    pub fn find(&self, lock: LockName<'_>) -> Option<LockId> {
        let is_it = |queue: &Queue<L>| queue.database == lock.database && *queue.key == *lock.key;
        let mut places = self.by_name.find((lock.database, lock.key));
        places.find(|place| self.locks.get(*place).is_some_and(is_it)).and_then(|place| self.lock_at(place))
    }

    fn lock_at(&self, place: Place) -> Option<LockId> {
        self.locks.get(place).map(|queue| LockId { number: queue.number, place })
    }

    /// The name of a lock that still has waiters.
    #[must_use]
    pub fn name(&self, lock: LockId) -> Option<(i32, Rc<[u8]>)> {
        self.queue(lock).map(|queue| (queue.database, Rc::clone(&queue.key)))
    }

    /// What is kept of a lock that still has waiters.
    pub fn kept(&mut self, lock: LockId) -> Option<&mut L> {
        self.queue_mut(lock).map(|queue| &mut queue.kept)
    }

    /// The next lock in turn; it then comes last. A lock that gets its first waiter comes last, too.
    pub fn take_turn(&mut self) -> Option<LockId> {
        let place = self.turns.first()?;
        self.turns.remove(&mut self.locks, place, |queue| &mut queue.turn);
        self.turns.push(&mut self.locks, place, |queue| &mut queue.turn);
        self.lock_at(place)
    }

    /// The number of clients that wait for this lock.
    #[must_use]
    pub fn length_of(&self, lock: LockName<'_>) -> usize {
        self.find(lock).and_then(|lock| self.queue(lock)).map_or(0, |queue| as_count(queue.length))
    }

    /// Puts a new waiter into the queue of its lock.
    ///
    /// # Errors
    /// If there is no room for another waiter.
    pub fn join(
        &mut self,
        lock: LockName<'_>,
        waiter: W,
        now: UnixMs,
        joins: Joins,
    ) -> Result<(Ticket, LockId), QueueFull> {
        let lock = match self.find(lock) {
            Some(lock) => lock,
            None => self.open(lock)?,
        };
        let number = match joins {
            Joins::Last => self.take_number(),
            Joins::First => {
                self.first_number = self.first_number.wrapping_sub(1);
                self.first_number
            }
            Joins::At(ticket) => ticket.number,
        };
        let stands = if joins == Joins::Last { Stands::InQueue } else { Stands::Back };
        let (deadline, in_queue, by_age, in_group) = Default::default();
        let (since, lock_place) = (now, lock.place);
        let waiting = Waiting { number, since, deadline, lock: lock_place, in_queue, by_age, in_group, stands, waiter };
        let place = self.waiters.insert(waiting).map_err(|_| QueueFull)?;
        let ticket = Ticket { number, place };
        self.by_age.push(&mut self.waiters, place, |waiting| &mut waiting.by_age);
        self.change_length(lock.place, 1);
        if stands == Stands::Back {
            self.back.insert((lock.place, ticket));
        } else if let Some(queue) = self.locks.get_mut(lock.place) {
            queue.waiters.push(&mut self.waiters, place, |waiting| &mut waiting.in_queue);
        }
        Ok((ticket, lock))
    }

    fn open(&mut self, lock: LockName<'_>) -> Result<LockId, QueueFull> {
        let (number, key, database): (_, Rc<[u8]>, _) = (self.take_number(), lock.key.into(), lock.database);
        let (waiters, by_length, turn, lease_end, kept) = Default::default();
        let queue = Queue { number, key, served: 0, database, length: 0, waiters, by_length, turn, lease_end, kept };
        let place = self.locks.insert(queue).map_err(|_| QueueFull)?;
        self.turns.push(&mut self.locks, place, |queue| &mut queue.turn);
        self.by_name.insert((database, lock.key), place);
        Ok(LockId { number, place })
    }

    fn take_number(&mut self) -> u64 {
        self.last_number = self.last_number.wrapping_add(1);
        self.last_number
    }

    /// The next waiter in a lock's queue behind `after`, or the first. Waiters that are passed over are skipped.
    #[must_use]
    pub fn next(&self, lock: LockId, after: Option<Ticket>) -> Option<Ticket> {
        let first = self.queue(lock)?.waiters.first();
        let in_queue = match after.and_then(|after| self.waiting(after)) {
            Some(before) if before.stands == Stands::InQueue => before.in_queue.behind(),
            // The waiters before `after` were checked before it, so they are few.
            _ => std::iter::successors(first, |place| self.waiters.get(*place)?.in_queue.behind())
                .find(|place| after.is_none_or(|after| self.ticket_at(*place).is_some_and(|ticket| after < ticket))),
        };
        let in_queue = in_queue.and_then(|place| self.ticket_at(place));
        let is_behind = |ticket: &Ticket| after.is_none_or(|after| after < *ticket);
        let back = if self.back.is_empty() { None } else { of_lock(&self.back, lock.place).find(is_behind) };
        back.into_iter().chain(in_queue).min()
    }

    /// The same, but waiters that are passed over are included.
    #[must_use]
    pub fn next_of_all(&self, lock: LockId, after: Option<Ticket>) -> Option<Ticket> {
        let first = (lock.place, after.unwrap_or(Ticket { number: 0, place: 0 }));
        let aside = self.passed_over.range(first..).find(|(_, ticket)| Some(*ticket) != after);
        let aside = aside.filter(|(place, _)| *place == lock.place).map(|(_, ticket)| *ticket);
        self.next(lock, after).into_iter().chain(aside).min()
    }

    /// The first waiter in a lock's queue. Waiters that are passed over are skipped.
    #[must_use]
    pub fn first(&self, lock: LockId) -> Option<Ticket> {
        self.next(lock, None)
    }

    /// Takes a waiter out of its queue, from any position. None if it has left already. `group` is the group with which it
    /// steps aside; `is_enlisted`: whether that group counts it; `is_served`: whether it leaves because it is served.
    pub fn take(
        &mut self,
        ticket: Ticket,
        group: Option<&mut Group>,
        is_enlisted: bool,
        is_served: bool,
    ) -> Option<Left<W>> {
        let Waiting { lock: place, stands, .. } = *self.waiting(ticket)?;
        let lock = self.lock_at(place)?;
        let was_first = self.first(lock) == Some(ticket);
        self.deadlines.cancel(&mut self.waiters, ticket.place, |waiting| &mut waiting.deadline);
        self.by_age.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.by_age);
        if let Some(group) = group {
            if is_enlisted {
                group.all.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_group);
                group.length = group.length.saturating_sub(1);
            }
            if stands == Stands::PassedOver {
                group.passed_over.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_queue);
                self.passed_over_by_group.remove(&(place, group.id, ticket));
            }
        }
        match stands {
            Stands::InQueue => self.remove_from_queue(place, ticket.place),
            Stands::PassedOver => _ = self.passed_over.remove(&(place, ticket)),
            Stands::Back => _ = self.back.remove(&(place, ticket)),
        }
        self.change_length(place, -1);
        let Waiting { since, waiter, .. } = self.waiters.remove(ticket.place)?;
        let queue = self.locks.get_mut(place)?;
        queue.served = queue.served.wrapping_add(u64::from(is_served));
        let (database, key) = (queue.database, Rc::clone(&queue.key));
        if queue.length == 0 {
            self.close(place);
        }
        Some(Left { waiter, lock, database, key, since, was_first })
    }

    fn remove_from_queue(&mut self, lock: Place, waiter: Place) {
        if let Some(queue) = self.locks.get_mut(lock) {
            queue.waiters.remove(&mut self.waiters, waiter, |waiting| &mut waiting.in_queue);
        }
    }

    /// Drops the queue of a lock for which no client waits any more.
    fn close(&mut self, place: Place) {
        self.turns.remove(&mut self.locks, place, |queue| &mut queue.turn);
        self.lease_ends.cancel(&mut self.locks, place, |queue| &mut queue.lease_end);
        let Some(Queue { database, key, .. }) = self.locks.remove(place) else { return };
        self.by_name.remove((database, &*key), place);
        if self.databases.get(&database).is_some_and(Lengths::is_empty) {
            self.databases.remove(&database);
        }
    }

    /// Changes the length of a queue, and moves it to the queues of its new length.
    fn change_length(&mut self, place: Place, by: i32) {
        let Some(queue) = self.locks.get_mut(place) else { return };
        let (before, database) = (queue.length, queue.database);
        let after = before.saturating_add_signed(by);
        queue.length = after;
        let by_length = self.databases.entry(database).or_default();
        if before > 0 {
            by_length.remove(&mut self.locks, place, before, |queue| &mut queue.by_length);
        }
        if after > 0 {
            by_length.insert(&mut self.locks, place, after, |queue| &mut queue.by_length);
        }
    }

    /// Sets the time at which a wait ends.
    pub fn set_deadline(&mut self, ticket: Ticket, time: UnixMs) {
        if self.waiting(ticket).is_some() {
            self.deadlines.set(&mut self.waiters, ticket.place, time, |waiting| &mut waiting.deadline);
        }
    }

    #[must_use]
    pub fn deadline(&self, ticket: Ticket) -> Option<UnixMs> {
        self.waiting(ticket)?.deadline.time()
    }

    /// Sets the alarm for the end of a lock's lease, or takes it back.
    pub fn set_lease_end(&mut self, lock: LockId, time: Option<UnixMs>) {
        if self.queue(lock).is_some_and(|queue| queue.lease_end.time() != time) {
            self.lease_ends.set(&mut self.locks, lock.place, time.unwrap_or(UnixMs::MAX), |queue| &mut queue.lease_end);
        }
    }

    #[must_use]
    pub fn lease_end(&self, lock: LockId) -> Option<UnixMs> {
        self.queue(lock)?.lease_end.time()
    }

    /// When the next alarm goes off; see [`super::store::NEVER`].
    #[must_use]
    pub fn next_alarm(&self) -> UnixMs {
        self.deadlines.next().min(self.lease_ends.next())
    }

    /// Takes the earliest alarm, if its time has come. At the same time, the end of a lease comes before the end of a wait.
    pub(super) fn take_due(&mut self, now: UnixMs) -> Option<Due> {
        if self.lease_ends.next() <= self.deadlines.next() {
            let place = self.lease_ends.take_due(&mut self.locks, now, |queue| &mut queue.lease_end)?;
            return self.lock_at(place).map(Due::LeaseEnd);
        }
        let place = self.deadlines.take_due(&mut self.waiters, now, |waiting| &mut waiting.deadline)?;
        self.ticket_at(place).map(Due::Deadline)
    }

    /// The lock that a waiter waits for.
    #[must_use]
    pub fn lock_of(&self, ticket: Ticket) -> Option<LockId> {
        self.lock_at(self.waiting(ticket)?.lock)
    }

    #[must_use]
    pub fn waiter(&self, ticket: Ticket) -> Option<&W> {
        self.waiting(ticket).map(|waiting| &waiting.waiter)
    }

    /// When a waiter came.
    #[must_use]
    pub fn since(&self, ticket: Ticket) -> Option<UnixMs> {
        self.waiting(ticket).map(|waiting| waiting.since)
    }

    /// A lock's waiters from the first to the last, including those that are passed over.
    pub fn waiters(&self, lock: LockName<'_>) -> impl Iterator<Item = (Ticket, &W)> {
        let places = self.find(lock).into_iter().flat_map(|lock| self.waiters_of(lock.place));
        places.filter_map(|place| self.waiter_at(place))
    }

    /// All waiters, in the order of coming.
    pub fn all(&self) -> impl Iterator<Item = (Ticket, &W)> {
        let behind = |place: &Place| self.waiters.get(*place)?.by_age.behind();
        std::iter::successors(self.by_age.first(), behind).filter_map(|place| self.waiter_at(place))
    }

    fn waiter_at(&self, place: Place) -> Option<(Ticket, &W)> {
        self.waiters.get(place).map(|waiting| (Ticket { number: waiting.number, place }, &waiting.waiter))
    }

    fn waiters_of(&self, lock: Place) -> impl Iterator<Item = Place> {
        let of_lock = |aside| of_lock(aside, lock).map(|ticket| ticket.place);
        let aside = self.in_order(of_lock(&self.passed_over), of_lock(&self.back));
        let first = self.locks.get(lock).and_then(|queue| queue.waiters.first());
        let behind = |place: &Place| self.waiters.get(*place)?.in_queue.behind();
        self.in_order(aside, std::iter::successors(first, behind))
    }

    /// Merges two lists of waiters, each in the order of coming.
    fn in_order(
        &self,
        some: impl Iterator<Item = Place>,
        others: impl Iterator<Item = Place>,
    ) -> impl Iterator<Item = Place> {
        let (mut some, mut others) = (some.peekable(), others.peekable());
        let number =
            |place: Option<&Place>| place.and_then(|place| self.waiters.get(*place)).map(|waiting| waiting.number);
        std::iter::from_fn(move || match (number(some.peek()), number(others.peek())) {
            (Some(one), Some(other)) if other < one => others.next(),
            (Some(_), _) => some.next(),
            (None, _) => others.next(),
        })
    }

    fn queue(&self, lock: LockId) -> Option<&Queue<L>> {
        self.locks.get(lock.place).filter(|queue| queue.number == lock.number)
    }

    fn queue_mut(&mut self, lock: LockId) -> Option<&mut Queue<L>> {
        self.locks.get_mut(lock.place).filter(|queue| queue.number == lock.number)
    }

    fn waiting(&self, ticket: Ticket) -> Option<&Waiting<W>> {
        self.waiters.get(ticket.place).filter(|waiting| waiting.number == ticket.number)
    }
}

/// The waiters for one lock among those that are aside.
fn of_lock(aside: &BTreeSet<(Place, Ticket)>, lock: Place) -> impl Iterator<Item = Ticket> {
    let first = (lock, Ticket { number: 0, place: 0 });
    let last = (lock, Ticket { number: u64::MAX, place: Place::MAX });
    let of_lock = if aside.is_empty() { None } else { Some(aside.range(first..=last)) };
    of_lock.into_iter().flatten().map(|(_, ticket)| *ticket)
}

/// Waiters that belong together, such as the tickets of a session: they step aside together, and keep their places. Waiters
/// aside are in the order of arrival, and so are those that are back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    id: Place,
    all: List,
    length: usize,
    passed_over: List,
}

impl Group {
    /// Each group has a number of its own.
    #[must_use]
    pub fn new(id: Place) -> Self {
        Self { id, ..Self::default() }
    }

    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether one of them is passed over now.
    #[must_use]
    pub fn has_passed_over(&self) -> bool {
        self.passed_over.first().is_some()
    }
}

impl<W, L: Default> Queues<W, L> {
    /// Counts a waiter among a group.
    pub fn enlist(&mut self, ticket: Ticket, group: &mut Group) {
        if self.waiting(ticket).is_some() {
            group.all.push(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_group);
            group.length = group.length.saturating_add(1);
        }
    }

    /// One of a group's waiters; the next time, another one.
    pub fn next_of(&mut self, group: &mut Group) -> Option<Ticket> {
        let place = group.all.first()?;
        group.all.remove(&mut self.waiters, place, |waiting| &mut waiting.in_group);
        group.all.push(&mut self.waiters, place, |waiting| &mut waiting.in_group);
        self.ticket_at(place)
    }

    /// Passes over a waiter, which keeps its place.
    pub fn pass_over(&mut self, ticket: Ticket, group: &mut Group) {
        let Some(waiting) = self.waiters.get_mut(ticket.place).filter(|waiting| waiting.number == ticket.number) else {
            return;
        };
        let lock = waiting.lock;
        match std::mem::replace(&mut waiting.stands, Stands::PassedOver) {
            Stands::InQueue => self.remove_from_queue(lock, ticket.place),
            Stands::Back => _ = self.back.remove(&(lock, ticket)),
            Stands::PassedOver => return,
        }
        self.passed_over.insert((lock, ticket));
        self.passed_over_by_group.insert((lock, group.id, ticket));
        group.passed_over.push(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_queue);
    }

    /// Puts one of the group that was passed over back into its place. Returns the lock that it waits for.
    pub fn put_back(&mut self, group: &mut Group) -> Option<LockId> {
        let place = group.passed_over.first()?;
        let ticket = self.ticket_at(place)?;
        self.put_ticket_back(ticket, group);
        self.lock_of(ticket)
    }

    /// Puts the first of the group that was passed over for this lock back into its place. Returns whether there was one.
    pub fn put_first_back(&mut self, lock: LockId, group: &mut Group) -> bool {
        let (first, last) = (Ticket { number: 0, place: 0 }, Ticket { number: u64::MAX, place: Place::MAX });
        let range = (lock.place, group.id, first)..=(lock.place, group.id, last);
        let first = self.passed_over_by_group.range(range).next().copied();
        if let Some((.., ticket)) = first {
            self.put_ticket_back(ticket, group);
        }
        first.is_some()
    }

    fn put_ticket_back(&mut self, ticket: Ticket, group: &mut Group) {
        group.passed_over.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.in_queue);
        let Some(waiting) = self.waiters.get_mut(ticket.place) else { return };
        waiting.stands = Stands::Back;
        let lock = waiting.lock;
        self.passed_over.remove(&(lock, ticket));
        self.passed_over_by_group.remove(&(lock, group.id, ticket));
        self.back.insert((lock, ticket));
    }
}

/// The maximum number of locks that one listing of queues asks about and may not show. The listing ends there, and leaves out
/// the locks behind them.
pub const QUEUES_SKIPPED_MAX: usize = 2_000;

/// A lock's queue, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    pub key: Rc<[u8]>,
    pub waiters: usize,
    /// When the first of its waiters came.
    pub since: UnixMs,
    /// The number of waiters that were granted the lock since its queue was last empty.
    pub served: u64,
}

impl<W, L: Default> Queues<W, L> {
    /// The first `limit` of [`Self::longest_first`] that may be shown, past at most [`QUEUES_SKIPPED_MAX`] others.
    pub fn to_be_shown(
        &self,
        database: i32,
        limit: usize,
        may_be_shown: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = QueueSummary> {
        let mut skipped: usize = 0;
        let asked = self.longest_first(database).map(move |queue| (may_be_shown(&queue.key), queue));
        let bounded = asked.take_while(move |(shown, _)| {
            skipped = skipped.saturating_add(usize::from(!shown));
            skipped < QUEUES_SKIPPED_MAX
        });
        bounded.filter_map(|(shown, queue)| shown.then_some(queue)).take(limit)
    }

    /// The queues of a database, the longest first; of equally long ones, the one that has not changed for longest.
    pub fn longest_first(&self, database: i32) -> impl Iterator<Item = QueueSummary> {
        let of_each_length = self.databases.get(&database).into_iter().flat_map(Lengths::longest_first);
        let places = of_each_length.flat_map(|first| {
            let behind = |place: &Place| self.locks.get(*place)?.by_length.behind();
            std::iter::successors(Some(first), behind)
        });
        places.filter_map(|place| {
            let queue = self.locks.get(place)?;
            let first = self.waiters_of(place).next().and_then(|first| self.waiters.get(first));
            let since = first.map_or(0, |first| first.since);
            let Queue { key, length, served, .. } = queue;
            Some(QueueSummary { key: Rc::clone(key), waiters: as_count(*length), since, served: *served })
        })
    }
}

#[cfg(test)]
mod tests;
