//! Who waits for which lock, first in first out.
//!
//! Each lock's queue is a list through one common store of waiters, so that joining, serving the first and leaving from
//! the middle each take the same time whatever the length: a waiter that hangs up must not cost its lock a search.
//! A ticket names a waiter for as long as it waits and nobody afterwards, even when its place in the store is used anew.

use super::Map;
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
    first: usize,
    last: usize,
    length: usize,
}

#[derive(Debug)]
struct Place<W> {
    number: u64,
    before: Option<usize>,
    behind: Option<usize>,
    database: i32,
    key: Rc<[u8]>,
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

    /// How many wait for the lock that most wait for.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.databases.values().flat_map(Map::values).map(|queue| queue.length).max().unwrap_or(0)
    }

    #[must_use]
    pub fn has(&self, lock: LockName<'_>) -> bool {
        self.queue(lock).is_some()
    }

    /// Puts a waiter behind all others of its lock.
    ///
    /// # Errors
    /// If `most` wait already, over all locks.
    pub fn join(&mut self, lock: LockName<'_>, waiter: W, most: usize) -> Result<Ticket, QueueFull> {
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
        let key = queues.get_key_value(lock.key).map_or_else(|| lock.key.into(), |(key, _)| Rc::clone(key));
        let queue = queues.entry(Rc::clone(&key)).or_insert(Queue { first: place, last: place, length: 0 });
        let before = (queue.length > 0).then_some(queue.last);
        queue.last = place;
        queue.length = queue.length.saturating_add(1);
        if let Some(before) = before {
            self.link(before, |before| before.behind = Some(place));
        }
        let joined = Place { number, before, behind: None, database: lock.database, key, waiter };
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
    pub fn leave(&mut self, ticket: Ticket) -> Option<W> {
        let place = self.places.get_mut(ticket.place)?.take_if(|place| place.number == ticket.number)?;
        self.free_places.push(ticket.place);
        if let Some(before) = place.before {
            self.link(before, |before| before.behind = place.behind);
        }
        if let Some(behind) = place.behind {
            self.link(behind, |behind| behind.before = place.before);
        }
        self.shorten(&place);
        Some(place.waiter)
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
    fn shorten(&mut self, gone: &Place<W>) {
        let Some(queues) = self.databases.get_mut(&gone.database) else { return };
        let Some(queue) = queues.get_mut(&gone.key) else { return };
        queue.length = queue.length.saturating_sub(1);
        match (gone.before, gone.behind) {
            (None, None) => drop(queues.remove(&gone.key)),
            (None, Some(behind)) => queue.first = behind,
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

        /// Against a plain list of everyone who waits, in the order in which they came.
        #[test]
        fn queues_are_what_a_list_of_waiters_would_be(steps in prop::collection::vec(step(), 1..200)) {
            const MOST: usize = 12;
            let mut queues = Queues::default();
            let mut list: Vec<(i32, usize, u64, Ticket)> = Vec::new();
            let mut gone: Vec<Ticket> = Vec::new();
            for (id, step) in (0_u64..).zip(steps) {
                match step {
                    Step::Join { database, key } => {
                        let joined = queues.join(LockName { database, key: KEYS[key] }, id, MOST);
                        prop_assert_eq!(joined.is_err(), list.len() >= MOST);
                        list.extend(joined.ok().map(|ticket| (database, key, id, ticket)));
                    }
                    Step::ServeFirst { database, key } => {
                        let position = list.iter().position(|waiting| (waiting.0, waiting.1) == (database, key));
                        let first = queues.first(LockName { database, key: KEYS[key] }).map(|(ticket, id)| (ticket, *id));
                        prop_assert_eq!(first, position.map(|position| (list[position].3, list[position].2)));
                        if let Some(position) = position {
                            let (.., id, ticket) = list.remove(position);
                            prop_assert_eq!(queues.leave(ticket), Some(id));
                            gone.push(ticket);
                        }
                    }
                    Step::Leave { waiter } if !list.is_empty() => {
                        let (.., id, ticket) = list.remove(waiter % list.len());
                        prop_assert_eq!(queues.leave(ticket), Some(id));
                        gone.push(ticket);
                    }
                    Step::Leave { .. } => {}
                }
                for ticket in &gone {
                    prop_assert_eq!(queues.leave(*ticket), None, "nobody leaves twice");
                    prop_assert_eq!(queues.lock_of(*ticket), None);
                }
                check(&queues, &list)?;
            }
            for (.., ticket) in list {
                queues.leave(ticket);
            }
            prop_assert!(queues.is_empty() && queues.databases.is_empty() && queues.length() == 0, "nothing is left over");
        }
    }

    fn check(queues: &Queues<u64>, list: &[(i32, usize, u64, Ticket)]) -> Result<(), TestCaseError> {
        let mut lengths = Vec::new();
        for database in 0..2 {
            for (key, name) in KEYS.into_iter().enumerate() {
                let lock = LockName { database, key: name };
                let expected: Vec<_> =
                    list.iter().filter(|waiting| (waiting.0, waiting.1) == (database, key)).map(|it| it.2).collect();
                let waiting: Vec<_> = queues.waiters(lock).map(|(_, id)| *id).collect();
                prop_assert_eq!(&waiting, &expected);
                prop_assert!(list.iter().all(|(.., id, ticket)| queues.waiter(*ticket) == Some(id)));
                prop_assert_eq!(queues.has(lock), !expected.is_empty());
                lengths.push(expected.len());
            }
        }
        prop_assert_eq!(queues.length(), list.len());
        prop_assert_eq!(queues.longest(), lengths.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(queues.locks(), lengths.iter().filter(|length| **length > 0).count());
        prop_assert_eq!(queues.names().count(), queues.locks());
        for (database, key, _, ticket) in list {
            prop_assert_eq!(queues.lock_of(*ticket), Some((*database, &Rc::from(KEYS[*key]))));
        }
        Ok(())
    }
}
