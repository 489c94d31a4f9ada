//! An index by the hash of a name: of locks by their names, of waiters by their holders' names and by their tickets' names.
//!
//! An entry is only a hash of 32 bits and a place, since names are long, are stored elsewhere already, and there may be a
//! million. Two names may share a hash, so the caller checks what it finds.

use super::store::Place;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// A table that grows moves all its entries at once. Each of this many tables is small enough to do that unnoticed.
const PARTS: usize = 16;

#[derive(Default)]
pub(super) struct Index {
    hasher: RandomState,
    parts: [HashTable<(u32, Place)>; PARTS],
}

/// An empty table with room for at most this many entries keeps that room.
const FEW: usize = 64;

/// Omits the entries: they follow from the values at their places.
impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Index").finish_non_exhaustive()
    }
}

impl Index {
    fn hash(&self, name: impl Hash) -> u32 {
        let hash = self.hasher.hash_one(name);
        u32::try_from(hash >> 32).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(HashTable::is_empty)
    }

    pub fn insert(&mut self, name: impl Hash, place: Place) {
        let hash = self.hash(name);
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.insert_unique(spread(hash), (hash, place), |(hash, _)| spread(*hash));
        }
    }

    pub fn remove(&mut self, name: impl Hash, place: Place) {
        let hash = self.hash(name);
        let Some(part) = self.parts.get_mut(part_of(hash)) else { return };
        if let Ok(entry) = part.find_entry(spread(hash), |entry| *entry == (hash, place)) {
            entry.remove();
        }
        if part.is_empty() && part.capacity() > FEW {
            *part = HashTable::new();
        }
    }

    /// The places of all with this name, and perhaps of some with other names, in no order.
    pub fn find<N: Hash>(&self, name: N) -> impl Iterator<Item = Place> + use<'_, N> {
        let hash = self.hash(name);
        let found = self.parts.get(part_of(hash)).into_iter().flat_map(move |part| part.iter_hash(spread(hash)));
        found.filter(move |(other, _)| *other == hash).map(|(_, place)| *place)
    }
}

fn part_of(hash: u32) -> usize {
    usize::try_from(hash).unwrap_or(0) % PARTS
}

/// Spreads a hash over the bits that a table looks at: by the fraction of the golden ratio, in 64 bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_one_name_are_found() {
        let mut index = Index::default();
        let (ann, bob) = ("ann", "bob");
        let found = |index: &Index, name: &str| {
            let mut found: Vec<_> = index.find(name).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(found(&index, ann), [0; 0]);
        for (name, place) in [(ann, 3), (bob, 2), (ann, 4), (ann, 1)] {
            index.insert(name, place);
        }
        assert_eq!((found(&index, ann), found(&index, bob)), (vec![1, 3, 4], vec![2]));
        index.remove(ann, 3);
        index.remove(ann, 1);
        assert_eq!(found(&index, ann), [4]);
        for (name, place) in [(ann, 4), (bob, 2), (bob, 2)] {
            index.remove(name, place);
        }
        assert!(index.is_empty());
    }
    #[test]
    fn many_are_spread_over_the_parts_and_give_their_room_back_when_all_have_gone() {
        const MANY: Place = 8_000;
        let mut index = Index::default();
        let most = |index: &Index| index.parts.iter().map(HashTable::len).max();
        (0..MANY).for_each(|number| index.insert(number, number));
        assert!(!index.is_empty() && most(&index) < Some(2 * 8_000 / PARTS));
        (1..MANY).for_each(|number| index.remove(number, number));
        assert!((0..MANY).filter(|number| index.find(number).next().is_some()).eq([0]));
        index.remove(0 as Place, 0);
        assert!(index.parts.iter().all(|part| part.capacity() <= FEW));
        index.insert("ann", 1);
        index.remove("ann", 1);
        assert_eq!(index.parts.iter().filter(|part| part.capacity() > 0).count(), 1, "the room of a few is kept");
    }
}
