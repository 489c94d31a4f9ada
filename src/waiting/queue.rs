//! The queues: the waiters of each lock, first in first out.
//!
//! Each lock's queue is a list through one common store of waiters, so that joining, serving the first and leaving from
//! the middle each take the same time whatever the length: a waiter that hangs up must not cost its lock a search.
//! A ticket names a waiter for as long as it waits, and no later one, even when its place in the store is used anew; a
//! [`LockId`] names a lock for as long as a client waits for it.
//!
//! Which queue is the longest, and which waiter came first, is kept in order all the time: operators ask for it every
//! few seconds, and a look at a million queues would hold the server up each time.

use super::Map;
use super::store::{Links, List, Place, Store};
use crate::lock::UnixMs;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A waiter's place, from joining until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Grows with each waiter, so that tickets also give the order of coming.
    number: u64,
    place: Place,
}

/// A lock with waiters, from when the first comes until the last leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The most locks that one look at the queues asks about though they may not be shown. It leaves out the others behind
/// them.
pub const QUEUES_SKIPPED_MAX: usize = 2_000;

/// As many clients wait as may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// All queues, whatever a waiter is (`W`), and whatever else is kept of a lock (`L`).
#[derive(Debug)]
pub struct Queues<W, L> {
    /// A database in which no client waits has none.
    databases: Map<i32, Database>,
    locks: Store<Queue<L>>,
    waiters: Store<Waiting<W>>,
    /// All waiters, in the order of coming.
    by_age: List,
    /// All locks; the next in turn is the first.
    turns: List,
    next_number: u64,
}

#[derive(Debug, Default)]
struct Database {
    by_name: Map<Rc<[u8]>, Place>,
    by_length: BTreeSet<ByLength>,
}

/// The longest queue first; of two equally long ones, the one that has waited longer.
type ByLength = (Reverse<usize>, UnixMs, Place);

#[derive(Debug)]
struct Queue<L> {
    number: u64,
    database: i32,
    key: Rc<[u8]>,
    waiters: List,
    length: usize,
    /// When the first waiter came.
    since: UnixMs,
    served: u64,
    turn: Links,
    kept: L,
}

#[derive(Debug)]
struct Waiting<W> {
    number: u64,
    lock: Place,
    in_queue: Links,
    by_age: Links,
    since: UnixMs,
    waiter: W,
}

/// A waiter that was taken out of its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Left<W, L> {
    pub waiter: W,
    pub lock: LockId,
    pub database: i32,
    pub key: Rc<[u8]>,
    /// When the waiter came.
    pub since: UnixMs,
    /// Whether no waiter was before it.
    pub was_first: bool,
    /// What was kept of the lock, if no client waits for it any more.
    pub closed: Option<L>,
}

/// A lock's queue, from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    pub key: Rc<[u8]>,
    pub waiters: usize,
    /// When the first of its waiters came.
    pub since: UnixMs,
    /// The number of waiters that were granted the lock since its queue was last empty.
    pub served: u64,
}

impl<W, L> Default for Queues<W, L> {
    fn default() -> Self {
        Self {
            databases: Map::default(),
            locks: Store::default(),
            waiters: Store::default(),
            by_age: List::default(),
            turns: List::default(),
            next_number: 0,
        }
    }
}

impl<W, L: Default> Queues<W, L> {
    /// Whether no client waits for any lock: a server without waiters asks this before each command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// The number of clients that wait, over all locks.
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
        let longest = |database: &Database| database.by_length.first().map_or(0, |(Reverse(length), ..)| *length);
        self.databases.values().map(longest).max().unwrap_or(0)
    }

    /// The waiter that came first, over all locks.
    #[must_use]
    pub fn oldest(&self) -> Option<Ticket> {
        let place = self.by_age.first()?;
        self.waiters.get(place).map(|waiting| Ticket { number: waiting.number, place })
    }

    /// Later than every ticket that was given, and earlier than those to come.
    #[must_use]
    pub fn watermark(&self) -> Ticket {
        Ticket { number: self.next_number, place: Place::MAX }
    }

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

    /// The queues of a database, the longest first; of two equally long ones, the one that has waited longer.
    pub fn longest_first(&self, database: i32) -> impl Iterator<Item = QueueSummary> {
        let by_length = self.databases.get(&database).into_iter().flat_map(|database| &database.by_length);
        by_length.filter_map(|(.., place)| {
            let Queue { key, length, since, served, .. } = self.locks.get(*place)?;
            Some(QueueSummary { key: Rc::clone(key), waiters: *length, since: *since, served: *served })
        })
    }

    /// The lock of this name, if a client waits for it.
    #[must_use]
    pub fn find(&self, lock: LockName<'_>) -> Option<LockId> {
        let place = *self.databases.get(&lock.database)?.by_name.get(lock.key)?;
        self.locks.get(place).map(|queue| LockId { number: queue.number, place })
    }

    /// The name of a lock that still has waiters.
    #[must_use]
    pub fn name(&self, lock: LockId) -> Option<(i32, Rc<[u8]>)> {
        self.queue(lock).map(|queue| (queue.database, Rc::clone(&queue.key)))
    }

    /// What is kept of a lock that still has waiters.
    pub fn kept(&mut self, lock: LockId) -> Option<&mut L> {
        self.locks.get_mut(lock.place).filter(|queue| queue.number == lock.number).map(|queue| &mut queue.kept)
    }

    /// The lock whose turn it is; it then comes last. A lock that gets its first waiter comes last, too.
    pub fn take_turn(&mut self) -> Option<LockId> {
        let place = self.turns.first()?;
        self.turns.remove(&mut self.locks, place, |queue| &mut queue.turn);
        self.turns.push(&mut self.locks, place, |queue| &mut queue.turn);
        self.locks.get(place).map(|queue| LockId { number: queue.number, place })
    }

    /// The number of clients that wait for this lock.
    #[must_use]
    pub fn length_of(&self, lock: LockName<'_>) -> usize {
        self.find(lock).and_then(|lock| self.queue(lock)).map_or(0, |queue| queue.length)
    }

    /// Puts a new waiter behind all others of its lock.
    ///
    /// # Errors
    /// If `limit` clients wait already, over all locks.
    pub fn join(
        &mut self,
        lock: LockName<'_>,
        waiter: W,
        now: UnixMs,
        limit: usize,
    ) -> Result<(Ticket, LockId), QueueFull> {
        if self.length() >= limit {
            return Err(QueueFull);
        }
        let lock = match self.find(lock) {
            Some(lock) => lock,
            None => self.open(lock, now)?,
        };
        let number = self.take_number();
        let (in_queue, by_age) = Default::default();
        let waiting = Waiting { number, lock: lock.place, in_queue, by_age, since: now, waiter };
        let place = self.waiters.insert(waiting).map_err(|_| QueueFull)?;
        self.by_age.push(&mut self.waiters, place, |waiting| &mut waiting.by_age);
        self.change_length(lock.place, |queue, waiters| {
            queue.waiters.push(waiters, place, |waiting| &mut waiting.in_queue);
            queue.length = queue.length.saturating_add(1);
        });
        Ok((Ticket { number, place }, lock))
    }

    fn open(&mut self, lock: LockName<'_>, now: UnixMs) -> Result<LockId, QueueFull> {
        let (number, key): (_, Rc<[u8]>) = (self.take_number(), lock.key.into());
        let (waiters, turn, kept) = Default::default();
        let database = lock.database;
        let queue =
            Queue { number, database, key: Rc::clone(&key), waiters, length: 0, since: now, served: 0, turn, kept };
        let place = self.locks.insert(queue).map_err(|_| QueueFull)?;
        self.turns.push(&mut self.locks, place, |queue| &mut queue.turn);
        let database = self.databases.entry(database).or_default();
        database.by_name.insert(key, place);
        Ok(LockId { number, place })
    }

    fn take_number(&mut self) -> u64 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }

    /// The first waiter in a lock's queue.
    #[must_use]
    pub fn first(&self, lock: LockId) -> Option<(Ticket, &W)> {
        let place = self.queue(lock)?.waiters.first()?;
        self.waiters.get(place).map(|first| (Ticket { number: first.number, place }, &first.waiter))
    }

    /// Takes a waiter out of its queue, from any position. None if it has left already.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Left<W, L>> {
        self.take(ticket, 0)
    }

    /// Takes a waiter out that is granted its lock.
    pub fn serve(&mut self, ticket: Ticket) -> Option<Left<W, L>> {
        self.take(ticket, 1)
    }

    fn take(&mut self, ticket: Ticket, served: u64) -> Option<Left<W, L>> {
        let place = self.waiting(ticket)?.lock;
        let was_first = self.locks.get(place)?.waiters.first() == Some(ticket.place);
        self.by_age.remove(&mut self.waiters, ticket.place, |waiting| &mut waiting.by_age);
        self.change_length(place, |queue, waiters| {
            queue.waiters.remove(waiters, ticket.place, |waiting| &mut waiting.in_queue);
            queue.length = queue.length.saturating_sub(1);
            queue.served = queue.served.wrapping_add(served);
        });
        let Waiting { since, waiter, .. } = self.waiters.remove(ticket.place)?;
        let Queue { number, database, key, length, .. } = self.locks.get(place)?;
        let (lock, database, key) = (LockId { number: *number, place }, *database, Rc::clone(key));
        let closed = if *length == 0 { self.close(place) } else { None };
        Some(Left { waiter, lock, database, key, since, was_first, closed })
    }

    /// Drops the queue of a lock for which no client waits any more.
    fn close(&mut self, place: Place) -> Option<L> {
        self.turns.remove(&mut self.locks, place, |queue| &mut queue.turn);
        let Queue { database, key, kept, .. } = self.locks.remove(place)?;
        if let Some(in_it) = self.databases.get_mut(&database) {
            in_it.by_name.remove(&key);
            if in_it.by_name.is_empty() {
                self.databases.remove(&database);
            }
        }
        Some(kept)
    }

    /// Changes a queue, and keeps it in its place among the others.
    fn change_length(&mut self, place: Place, change: impl FnOnce(&mut Queue<L>, &mut Store<Waiting<W>>)) {
        let Some(queue) = self.locks.get_mut(place) else { return };
        let before = (Reverse(queue.length), queue.since, place);
        change(queue, &mut self.waiters);
        let first = queue.waiters.first().and_then(|first| self.waiters.get(first));
        queue.since = first.map_or(queue.since, |first| first.since);
        let after = (Reverse(queue.length), queue.since, place);
        let Some(database) = self.databases.get_mut(&queue.database) else { return };
        // In this order, since a set that is never empty in between allots nothing anew.
        if queue.length > 0 {
            database.by_length.insert(after);
        }
        if before != after {
            database.by_length.remove(&before);
        }
    }

    /// The lock that a waiter waits for.
    #[must_use]
    pub fn lock_of(&self, ticket: Ticket) -> Option<LockId> {
        let place = self.waiting(ticket)?.lock;
        self.locks.get(place).map(|queue| LockId { number: queue.number, place })
    }

    #[must_use]
    pub fn waiter(&self, ticket: Ticket) -> Option<&W> {
        self.waiting(ticket).map(|waiting| &waiting.waiter)
    }

    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        let waiting = self.waiters.get_mut(ticket.place).filter(|waiting| waiting.number == ticket.number)?;
        Some(&mut waiting.waiter)
    }

    /// When a waiter came.
    #[must_use]
    pub fn since(&self, ticket: Ticket) -> Option<UnixMs> {
        self.waiting(ticket).map(|waiting| waiting.since)
    }

    /// A lock's waiters from the first to the last.
    pub fn waiters(&self, lock: LockName<'_>) -> impl Iterator<Item = (Ticket, &W)> {
        let queue = self.find(lock).and_then(|lock| self.queue(lock));
        let mut next = queue.and_then(|queue| queue.waiters.first());
        std::iter::from_fn(move || {
            let place = next?;
            let waiting = self.waiters.get(place)?;
            next = waiting.in_queue.behind();
            Some((Ticket { number: waiting.number, place }, &waiting.waiter))
        })
    }

    fn queue(&self, lock: LockId) -> Option<&Queue<L>> {
        self.locks.get(lock.place).filter(|queue| queue.number == lock.number)
    }

    fn waiting(&self, ticket: Ticket) -> Option<&Waiting<W>> {
        self.waiters.get(ticket.place).filter(|waiting| waiting.number == ticket.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&[u8]; 3] = [b"a", b"b", b""];

    #[derive(Clone, Debug)]
    enum Step {
        Join { database: i32, key: usize },
        ServeFirst { database: i32, key: usize },
        Leave { waiter: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0..2, 0..3_usize).prop_map(|(database, key)| Step::Join { database, key }),
            2 => (0..2, 0..3_usize).prop_map(|(database, key)| Step::ServeFirst { database, key }),
            2 => (0..1_000_usize).prop_map(|waiter| Step::Leave { waiter }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a plain list of all waiters, in the order in which they came. Each comes a moment after the one
        /// before.
        #[test]
        fn queues_are_what_a_list_of_waiters_would_be(steps in prop::collection::vec(step(), 1..200)) {
            const LIMIT: usize = 12;
            let mut queues = Queues::<u64, ()>::default();
            let mut list: Vec<(i32, usize, u64, Ticket)> = Vec::new();
            let mut gone: Vec<Ticket> = Vec::new();
            let mut served: Map<(i32, usize), u64> = Map::default();
            for (id, step) in (0_u64..).zip(steps) {
                match step {
                    Step::Join { database, key } => {
                        let joined = queues.join(LockName { database, key: KEYS[key] }, id, came(id), LIMIT);
                        prop_assert_eq!(joined.is_err(), list.len() >= LIMIT);
                        list.extend(joined.ok().map(|(ticket, _)| (database, key, id, ticket)));
                    }
                    Step::ServeFirst { database, key } => {
                        let position = list.iter().position(|waiting| (waiting.0, waiting.1) == (database, key));
                        let lock = queues.find(LockName { database, key: KEYS[key] });
                        let first = lock.and_then(|lock| queues.first(lock)).map(|(ticket, id)| (ticket, *id));
                        prop_assert_eq!(first, position.map(|position| (list[position].3, list[position].2)));
                        if let Some(position) = position {
                            let (.., id, ticket) = list.remove(position);
                            prop_assert_eq!(queues.serve(ticket).map(|left| (left.waiter, left.was_first)), Some((id, true)));
                            gone.push(ticket);
                            *served.entry((database, key)).or_default() += 1;
                        }
                    }
                    Step::Leave { waiter } if !list.is_empty() => {
                        let (database, key, id, ticket) = list.remove(waiter % list.len());
                        let was_first = !list.iter().any(|other| (other.0, other.1) == (database, key) && other.2 < id);
                        let left = queues.leave(ticket).unwrap();
                        prop_assert_eq!((left.waiter, left.was_first), (id, was_first));
                        let is_there = queues.find(LockName { database: left.database, key: &left.key });
                        prop_assert_eq!(left.closed.is_none().then_some(left.lock), is_there);
                        gone.push(ticket);
                    }
                    Step::Leave { .. } => {}
                }
                for ticket in &gone {
                    prop_assert_eq!(queues.leave(*ticket), None, "nobody leaves twice");
                    prop_assert_eq!(queues.lock_of(*ticket), None);
                }
                served.retain(|lock, _| list.iter().any(|waiting| (waiting.0, waiting.1) == *lock));
                check(&mut queues, &list, &served)?;
            }
            for (.., ticket) in list {
                queues.leave(ticket);
            }
            prop_assert!(queues.is_empty() && queues.locks() == 0 && queues.length() == 0, "nothing is left over");
            prop_assert_eq!(queues.take_turn(), None);
        }
    }

    #[test]
    fn what_may_not_be_shown_is_asked_about_up_to_a_bound() {
        let mut queues = Queues::<(), ()>::default();
        let names: Vec<_> = (0..QUEUES_SKIPPED_MAX + 5).map(|number| number.to_string()).collect();
        for (name, now) in names.iter().zip(0..) {
            queues.join(LockName { database: 0, key: name.as_bytes() }, (), now, usize::MAX).unwrap();
        }
        let shown = |limit, may_be_shown: &dyn Fn(&[u8]) -> bool| {
            let shown = queues.to_be_shown(0, limit, may_be_shown).map(|queue| queue.key.to_vec());
            shown.collect::<Vec<_>>()
        };
        assert_eq!(shown(2, &|key| key.ends_with(b"7")), [b"7".to_vec(), b"17".to_vec()]);
        assert_eq!(shown(usize::MAX, &|_| true).len(), names.len(), "what is shown is not bounded by that");
        let asked = std::cell::Cell::new(0);
        let nothing = |_: &[u8]| {
            asked.set(asked.get() + 1);
            false
        };
        assert!(shown(1, &nothing).is_empty());
        assert_eq!(asked.get(), QUEUES_SKIPPED_MAX);
        asked.set(0);
        assert!(queues.to_be_shown(1, 1, nothing).next().is_none(), "another database has none");
        assert_eq!(asked.get(), 0);
    }

    #[test]
    fn each_lock_has_its_turn_once_in_a_round() {
        let mut queues = Queues::<(), ()>::default();
        let names: Vec<_> = (0..10).map(|number| number.to_string()).collect();
        let locks: Vec<_> = names
            .iter()
            .map(|name| queues.join(LockName { database: 0, key: name.as_bytes() }, (), 0, usize::MAX).unwrap().1)
            .collect();
        for _ in 0..3 {
            let round: Vec<_> = (0..10).map(|_| queues.take_turn().unwrap()).collect();
            assert_eq!(round, locks);
        }
    }

    fn came(id: u64) -> UnixMs {
        i64::try_from(id).unwrap() * 10
    }

    fn check(
        queues: &mut Queues<u64, ()>,
        list: &[(i32, usize, u64, Ticket)],
        served: &Map<(i32, usize), u64>,
    ) -> Result<(), TestCaseError> {
        let mut lengths = Vec::new();
        for database in 0..2 {
            let mut by_length = Vec::new();
            for (key, name) in KEYS.into_iter().enumerate() {
                let lock = LockName { database, key: name };
                let expected: Vec<_> =
                    list.iter().filter(|waiter| (waiter.0, waiter.1) == (database, key)).map(|it| it.2).collect();
                let waiting: Vec<_> = queues.waiters(lock).map(|(_, id)| *id).collect();
                prop_assert_eq!(&waiting, &expected);
                prop_assert!(list.iter().all(|(.., id, ticket)| queues.waiter(*ticket) == Some(id)));
                prop_assert_eq!(queues.find(lock).is_some(), !expected.is_empty());
                prop_assert_eq!(queues.length_of(lock), expected.len());
                lengths.push(expected.len());
                by_length.extend(expected.first().map(|first| QueueSummary {
                    key: name.into(),
                    waiters: expected.len(),
                    since: came(*first),
                    served: served.get(&(database, key)).copied().unwrap_or(0),
                }));
            }
            by_length.sort_by_key(|queue| (Reverse(queue.waiters), queue.since));
            prop_assert_eq!(queues.longest_first(database).collect::<Vec<_>>(), by_length);
        }
        prop_assert_eq!(queues.length(), list.len());
        prop_assert_eq!(queues.locks(), lengths.iter().filter(|length| **length > 0).count());
        prop_assert_eq!(queues.longest(), lengths.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(queues.oldest(), list.first().map(|first| first.3));
        for (database, key, id, ticket) in list {
            prop_assert_eq!(queues.since(*ticket), Some(came(*id)));
            let name = queues.lock_of(*ticket).and_then(|lock| queues.name(lock));
            prop_assert_eq!(name, Some((*database, Rc::from(KEYS[*key]))));
        }
        let turns: std::collections::HashSet<_> = (0..queues.locks()).filter_map(|_| queues.take_turn()).collect();
        prop_assert_eq!(turns.len(), queues.locks(), "each lock has its turn");
        Ok(())
    }
}
