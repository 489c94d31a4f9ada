//! Who waits for which lock, first in first out.
//!
//! Each lock's queue is a list through one common store of waiters, so that joining, serving the first and leaving from
//! the middle each take the same time whatever the length: a waiter that hangs up must not cost its lock a search.
//! A ticket names a waiter for as long as it waits and nobody afterwards, even when its place in the store is used anew.

use super::Map;
use crate::lock::UnixMs;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A waiter's place, from joining until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Grows with each waiter, so that tickets also tell who came first.
    number: u64,
    place: usize,
}

/// A lock's name: a database and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockName<'a> {
    pub database: i32,
    pub key: &'a [u8],
}

/// The most locks that one look at all queues asks about, whether they may be shown. Behind so many that may not, the
/// others are left out.
pub const QUEUES_LOOKED_AT_MAX: usize = 20_000;

/// There are as many waiters as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// All queues. What a waiter is does not matter here.
#[derive(Debug)]
pub struct Queues<W> {
    /// By database, then key, so that a borrowed key finds its queue. A lock without waiters has none.
    databases: Map<i32, Map<Rc<[u8]>, Queue>>,
    places: Vec<Option<Place<W>>>,
    free_places: Vec<usize>,
    next_number: u64,
}

#[derive(Debug)]
struct Queue {
    /// The key under which it is found, for whoever joins.
    key: Rc<[u8]>,
    first: usize,
    last: usize,
    length: usize,
    /// When the first one came. Here too, so that a look at all queues need not look at any waiter.
    since: UnixMs,
    served: u64,
}

/// A waiter that was taken out of its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Left<W> {
    pub waiter: W,
    pub database: i32,
    pub key: Rc<[u8]>,
    /// When it came.
    pub since: UnixMs,
    /// Whether nobody waits for this lock any more.
    pub was_last: bool,
}

/// A lock's queue, from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited<'a> {
    pub lock: LockName<'a>,
    pub waiters: usize,
    /// When the first of them came.
    pub since: UnixMs,
    /// How many were granted the lock since nobody waited for it.
    pub served: u64,
}

/// All queues at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    pub locks: usize,
    /// How many wait for the lock that most wait for.
    pub longest: usize,
    /// When the first came of all who wait.
    pub since: Option<UnixMs>,
}

#[derive(Debug)]
struct Place<W> {
    number: u64,
    before: Option<usize>,
    behind: Option<usize>,
    database: i32,
    key: Rc<[u8]>,
    since: UnixMs,
    waiter: W,
}

impl<W> Default for Queues<W> {
    fn default() -> Self {
        Self { databases: Map::default(), places: Vec::new(), free_places: Vec::new(), next_number: 0 }
    }
}

impl<W> Queues<W> {
    /// Whether nobody waits for anything. What a server without waiters asks before each command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// How many wait, over all locks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.places.len().saturating_sub(self.free_places.len())
    }

    /// How many locks are waited for.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.databases.values().map(Map::len).sum()
    }

    /// Looks at each queue once, and at no waiter.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let queues = self.databases.values().flat_map(Map::values);
        queues.fold(Overview::default(), |all, queue| Overview {
            locks: all.locks.saturating_add(1),
            longest: all.longest.max(queue.length),
            since: Some(all.since.map_or(queue.since, |since| since.min(queue.since))),
        })
    }

    /// The first `most` of [`Self::longest_first`] that may be shown. At most [`QUEUES_LOOKED_AT_MAX`] are asked about.
    pub fn to_be_shown(
        &self,
        database: i32,
        most: usize,
        may_be_shown: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = Waited<'_>> {
        let looked_at = self.longest_first(database).take(QUEUES_LOOKED_AT_MAX);
        looked_at.filter(move |queue| may_be_shown(queue.lock.key)).take(most)
    }

    /// The locks of a database that are waited for, the longest queue first, and of two alike the one that waits longer.
    pub fn longest_first(&self, database: i32) -> impl Iterator<Item = Waited<'_>> {
        let queues = self.databases.get(&database).into_iter().flatten();
        // A heap, since of many locks mostly a few are asked for: to sort them all would be more work.
        let mut heap: BinaryHeap<_> =
            queues.map(|(key, queue)| (queue.length, Reverse(queue.since), Reverse(&**key), queue.served)).collect();
        std::iter::from_fn(move || {
            let (waiters, Reverse(since), Reverse(key), served) = heap.pop()?;
            Some(Waited { lock: LockName { database, key }, waiters, since, served })
        })
    }

    #[must_use]
    pub fn has(&self, lock: LockName<'_>) -> bool {
        self.queue(lock).is_some()
    }

    /// How many wait for this lock.
    #[must_use]
    pub fn length_of(&self, lock: LockName<'_>) -> usize {
        self.queue(lock).map_or(0, |queue| queue.length)
    }

    /// Puts a waiter that comes now behind all others of its lock.
    ///
    /// # Errors
    /// If `most` wait already, over all locks.
    pub fn join(&mut self, lock: LockName<'_>, waiter: W, now: UnixMs, most: usize) -> Result<Ticket, QueueFull> {
        if self.length() >= most {
            return Err(QueueFull);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len().saturating_sub(1)
        });
        let queues = self.databases.entry(lock.database).or_default();
        let (key, before) = if let Some(queue) = queues.get_mut(lock.key) {
            queue.length = queue.length.saturating_add(1);
            (Rc::clone(&queue.key), Some(std::mem::replace(&mut queue.last, place)))
        } else {
            let key: Rc<[u8]> = lock.key.into();
            let alone = Queue { key: Rc::clone(&key), first: place, last: place, length: 1, since: now, served: 0 };
            queues.insert(Rc::clone(&key), alone);
            (key, None)
        };
        if let Some(before) = before {
            self.link(before, |before| before.behind = Some(place));
        }
        let joined = Place { number, before, behind: None, database: lock.database, key, since: now, waiter };
        if let Some(empty) = self.places.get_mut(place) {
            *empty = Some(joined);
        }
        Ok(Ticket { number, place })
    }

    /// The first in a lock's queue.
    #[must_use]
    pub fn first(&self, lock: LockName<'_>) -> Option<(Ticket, &W)> {
        let place = self.queue(lock)?.first;
        let first = self.places.get(place)?.as_ref()?;
        Some((Ticket { number: first.number, place }, &first.waiter))
    }

    /// Takes a waiter out, from wherever in its queue it is. None if it has left already.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Left<W>> {
        self.take(ticket, 0)
    }

    /// Takes a waiter out that is granted its lock.
    pub fn serve(&mut self, ticket: Ticket) -> Option<Left<W>> {
        self.take(ticket, 1)
    }

    fn take(&mut self, ticket: Ticket, served: u64) -> Option<Left<W>> {
        let place = self.places.get_mut(ticket.place)?.take_if(|place| place.number == ticket.number)?;
        self.free_places.push(ticket.place);
        if let Some(before) = place.before {
            self.link(before, |before| before.behind = place.behind);
        }
        if let Some(behind) = place.behind {
            self.link(behind, |behind| behind.before = place.before);
        }
        self.shorten(&place, served);
        let Place { database, key, since, before, behind, waiter, .. } = place;
        Some(Left { waiter, database, key, since, was_last: before.is_none() && behind.is_none() })
    }

    /// The lock that a waiter waits for.
    #[must_use]
    pub fn lock_of(&self, ticket: Ticket) -> Option<(i32, &Rc<[u8]>)> {
        let place = self.places.get(ticket.place)?.as_ref().filter(|place| place.number == ticket.number)?;
        Some((place.database, &place.key))
    }

    #[must_use]
    pub fn waiter(&self, ticket: Ticket) -> Option<&W> {
        let place = self.places.get(ticket.place)?.as_ref().filter(|place| place.number == ticket.number)?;
        Some(&place.waiter)
    }

    /// When a waiter came.
    #[must_use]
    pub fn since(&self, ticket: Ticket) -> Option<UnixMs> {
        let place = self.places.get(ticket.place)?.as_ref().filter(|place| place.number == ticket.number)?;
        Some(place.since)
    }

    /// A lock's waiters from the first to the last.
    pub fn waiters(&self, lock: LockName<'_>) -> impl Iterator<Item = (Ticket, &W)> {
        let mut next = self.queue(lock).map(|queue| queue.first);
        std::iter::from_fn(move || {
            let place = next?;
            let waiting = self.places.get(place)?.as_ref()?;
            next = waiting.behind;
            Some((Ticket { number: waiting.number, place }, &waiting.waiter))
        })
    }

    /// All locks that are waited for.
    pub fn names(&self) -> impl Iterator<Item = LockName<'_>> {
        self.databases
            .iter()
            .flat_map(|(database, queues)| queues.keys().map(|key| LockName { database: *database, key }))
    }

    fn queue(&self, lock: LockName<'_>) -> Option<&Queue> {
        self.databases.get(&lock.database)?.get(lock.key)
    }

    fn link(&mut self, place: usize, change: impl FnOnce(&mut Place<W>)) {
        if let Some(Some(place)) = self.places.get_mut(place) {
            change(place);
        }
    }

    /// Tells the queue that the waiter at this place is no longer in it.
    fn shorten(&mut self, gone: &Place<W>, served: u64) {
        let first = gone.behind.and_then(|behind| self.places.get(behind)?.as_ref());
        let next_since = first.map_or(gone.since, |first| first.since);
        let Some(queues) = self.databases.get_mut(&gone.database) else { return };
        let Some(queue) = queues.get_mut(&gone.key) else { return };
        queue.length = queue.length.saturating_sub(1);
        queue.served = queue.served.wrapping_add(served);
        match (gone.before, gone.behind) {
            (None, None) => drop(queues.remove(&gone.key)),
            (None, Some(behind)) => (queue.first, queue.since) = (behind, next_since),
            (Some(before), None) => queue.last = before,
            (Some(_), Some(_)) => {}
        }
        if queues.is_empty() {
            self.databases.remove(&gone.database);
        }
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

        /// Against a plain list of everyone who waits, in the order in which they came. Each comes a moment after the
        /// one before.
        #[test]
        fn queues_are_what_a_list_of_waiters_would_be(steps in prop::collection::vec(step(), 1..200)) {
            const MOST: usize = 12;
            let mut queues = Queues::default();
            let mut list: Vec<(i32, usize, u64, Ticket)> = Vec::new();
            let mut gone: Vec<Ticket> = Vec::new();
            let mut served: Map<(i32, usize), u64> = Map::default();
            for (id, step) in (0_u64..).zip(steps) {
                match step {
                    Step::Join { database, key } => {
                        let joined = queues.join(LockName { database, key: KEYS[key] }, id, came(id), MOST);
                        prop_assert_eq!(joined.is_err(), list.len() >= MOST);
                        list.extend(joined.ok().map(|ticket| (database, key, id, ticket)));
                    }
                    Step::ServeFirst { database, key } => {
                        let position = list.iter().position(|waiting| (waiting.0, waiting.1) == (database, key));
                        let first = queues.first(LockName { database, key: KEYS[key] }).map(|(ticket, id)| (ticket, *id));
                        prop_assert_eq!(first, position.map(|position| (list[position].3, list[position].2)));
                        if let Some(position) = position {
                            let (.., id, ticket) = list.remove(position);
                            prop_assert_eq!(queues.serve(ticket).map(|left| left.waiter), Some(id));
                            gone.push(ticket);
                            *served.entry((database, key)).or_default() += 1;
                        }
                    }
                    Step::Leave { waiter } if !list.is_empty() => {
                        let (.., id, ticket) = list.remove(waiter % list.len());
                        let left = queues.leave(ticket).unwrap();
                        prop_assert_eq!(left.waiter, id);
                        prop_assert_eq!(left.was_last, !queues.has(LockName { database: left.database, key: &left.key }));
                        gone.push(ticket);
                    }
                    Step::Leave { .. } => {}
                }
                for ticket in &gone {
                    prop_assert_eq!(queues.leave(*ticket), None, "nobody leaves twice");
                    prop_assert_eq!(queues.lock_of(*ticket), None);
                }
                served.retain(|lock, _| list.iter().any(|waiting| (waiting.0, waiting.1) == *lock));
                check(&queues, &list, &served)?;
            }
            for (.., ticket) in list {
                queues.leave(ticket);
            }
            prop_assert!(queues.is_empty() && queues.databases.is_empty() && queues.length() == 0, "nothing is left over");
        }
    }

    #[test]
    fn what_may_not_be_shown_is_asked_about_up_to_a_bound() {
        let mut queues = Queues::default();
        let names: Vec<_> = (0..QUEUES_LOOKED_AT_MAX + 5).map(|number| number.to_string()).collect();
        for (name, now) in names.iter().zip(0..) {
            queues.join(LockName { database: 0, key: name.as_bytes() }, (), now, usize::MAX).unwrap();
        }
        let shown = |most, may_be_shown: &dyn Fn(&[u8]) -> bool| {
            let shown = queues.to_be_shown(0, most, may_be_shown).map(|queue| queue.lock.key.to_vec());
            shown.collect::<Vec<_>>()
        };
        assert_eq!(shown(2, &|key| key.ends_with(b"7")), [b"7".to_vec(), b"17".to_vec()]);
        let asked = std::cell::Cell::new(0);
        let nothing = |_: &[u8]| {
            asked.set(asked.get() + 1);
            false
        };
        assert!(shown(1, &nothing).is_empty());
        assert_eq!(asked.get(), QUEUES_LOOKED_AT_MAX);
        asked.set(0);
        assert!(queues.to_be_shown(1, 1, nothing).next().is_none(), "another database has none");
        assert_eq!(asked.get(), 0);
    }

    fn came(id: u64) -> UnixMs {
        i64::try_from(id).unwrap() * 10
    }

    fn check(
        queues: &Queues<u64>,
        list: &[(i32, usize, u64, Ticket)],
        served: &Map<(i32, usize), u64>,
    ) -> Result<(), TestCaseError> {
        let mut lengths = Vec::new();
        for database in 0..2 {
            let mut by_length = Vec::new();
            for (key, name) in KEYS.into_iter().enumerate() {
                let lock = LockName { database, key: name };
                let expected: Vec<_> =
                    list.iter().filter(|waiting| (waiting.0, waiting.1) == (database, key)).map(|it| it.2).collect();
                let waiting: Vec<_> = queues.waiters(lock).map(|(_, id)| *id).collect();
                prop_assert_eq!(&waiting, &expected);
                prop_assert!(list.iter().all(|(.., id, ticket)| queues.waiter(*ticket) == Some(id)));
                prop_assert_eq!(queues.has(lock), !expected.is_empty());
                prop_assert_eq!(queues.length_of(lock), expected.len());
                lengths.push(expected.len());
                by_length.extend(expected.first().map(|first| Waited {
                    lock,
                    waiters: expected.len(),
                    since: came(*first),
                    served: served.get(&(database, key)).copied().unwrap_or(0),
                }));
            }
            by_length.sort_by_key(|queue| (Reverse(queue.waiters), queue.since));
            prop_assert_eq!(queues.longest_first(database).collect::<Vec<_>>(), by_length);
        }
        prop_assert_eq!(queues.length(), list.len());
        let overview = Overview {
            locks: lengths.iter().filter(|length| **length > 0).count(),
            longest: lengths.iter().copied().max().unwrap_or(0),
            since: list.first().map(|first| came(first.2)),
        };
        prop_assert_eq!(queues.overview(), overview);
        prop_assert_eq!(queues.names().count(), overview.locks);
        for (database, key, id, ticket) in list {
            prop_assert_eq!(queues.since(*ticket), Some(came(*id)));
            prop_assert_eq!(queues.lock_of(*ticket), Some((*database, &Rc::from(KEYS[*key]))));
        }
        Ok(())
    }
}
