//! Waiters for the same lock under the same name.
//!
//! A holder is granted its own lock at once, so when one waiter is granted its lock, others under its name must be
//! found: without a search, since thousands may be in the queue between them. Mostly there are none.

use super::Map;
use super::queue::{LockId, Ticket};
use foldhash::fast::RandomState;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::{Bound, RangeBounds};

#[derive(Debug, Default)]
pub(super) struct Namesakes {
    /// By the hash of lock and name. Two names may share a hash, so the caller checks the waiters that it finds.
    by_name: Map<u64, Tickets>,
    hasher: RandomState,
}

#[derive(Debug)]
enum Tickets {
    One(Ticket),
    More(BTreeSet<Ticket>),
}

impl Namesakes {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn insert(&mut self, lock: LockId, holder: &[u8], ticket: Ticket) {
        let name = self.hasher.hash_one((lock, holder));
        match self.by_name.get_mut(&name) {
            None => drop(self.by_name.insert(name, Tickets::One(ticket))),
            Some(Tickets::More(tickets)) => drop(tickets.insert(ticket)),
            Some(tickets) => {
                if let Tickets::One(first) = *tickets {
                    *tickets = Tickets::More([first, ticket].into());
                }
            }
        }
    }

    /// Returns whether there are others.
    pub fn remove(&mut self, lock: LockId, holder: &[u8], ticket: Ticket) -> bool {
        let name = self.hasher.hash_one((lock, holder));
        let stays = match self.by_name.get_mut(&name) {
            Some(Tickets::More(tickets)) => {
                tickets.remove(&ticket);
                !tickets.is_empty()
            }
            Some(Tickets::One(only)) => *only != ticket,
            None => return false,
        };
        if !stays {
            self.by_name.remove(&name);
        }
        stays
    }

    /// The waiters that may have this name, from the first that came after `after`.
    pub fn after(&self, lock: LockId, holder: &[u8], after: Option<Ticket>) -> impl Iterator<Item = Ticket> {
        let (only, more) = match self.by_name.get(&self.hasher.hash_one((lock, holder))) {
            Some(Tickets::One(only)) => (Some(*only), None),
            Some(Tickets::More(tickets)) => (None, Some(tickets)),
            None => (None, None),
        };
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let more = more.into_iter().flat_map(move |tickets| tickets.range(range).copied());
        only.into_iter().filter(move |only| range.contains(only)).chain(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{LockName, Queues};

    #[test]
    fn those_of_one_name_are_found_in_the_order_of_coming() {
        let mut queues = Queues::<(), ()>::default();
        let mut join = |key| queues.join(LockName { database: 0, key }, (), 0, 9).unwrap();
        let ((first, lock), (second, _), (third, _), (elsewhere, other)) =
            (join(b"k"), join(b"k"), join(b"k"), join(b"o"));
        let mut namesakes = Namesakes::default();
        let found = |namesakes: &Namesakes, after| namesakes.after(lock, b"ann", after).collect::<Vec<_>>();
        assert_eq!(found(&namesakes, None), []);
        namesakes.insert(lock, b"ann", first);
        namesakes.insert(lock, b"bob", second);
        namesakes.insert(other, b"ann", elsewhere);
        assert_eq!((found(&namesakes, None), found(&namesakes, Some(first))), (vec![first], vec![]));
        namesakes.insert(lock, b"ann", third);
        assert_eq!((found(&namesakes, None), found(&namesakes, Some(first))), (vec![first, third], vec![third]));
        assert!(namesakes.remove(lock, b"ann", first) && !namesakes.remove(lock, b"ann", third));
        assert!(!namesakes.remove(lock, b"ann", third) && found(&namesakes, None).is_empty());
        assert!(!namesakes.remove(lock, b"bob", second) && !namesakes.remove(other, b"ann", elsewhere));
        assert!(namesakes.is_empty());
    }
}
