//! What has a name is found by the name's hash: locks by their names, waiters by their holders' and by their tickets'.
//!
//! A hash of 32 bits and a place are all that is kept of each, since names are long, are stored elsewhere already, and
//! there may be a million. Two names may share a hash, so whoever asks checks what is found. Several under one hash are
//! in the order of their numbers, which is the order of coming.

use super::Map;
use super::store::Place;
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Bound;

/// A map that grows moves all that is in it at once. Each of so many is small enough to do that unnoticed.
const PARTS: usize = 16;

#[derive(Default)]
pub(super) struct Index {
    hasher: RandomState,
    only: [HashMap<u32, Place, Spread>; PARTS],
    several: Map<u32, BTreeSet<Numbered>>,
}

/// A hash needs no second one, but to be spread over the bits that a map looks at.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl BuildHasher for Spread {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, hash: u32) {
        // The fraction of the golden ratio, in 64 bits.
        self.0 = (self.0 ^ u64::from(hash)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A value's number, and its place.
pub(super) type Numbered = (u64, Place);

/// With fewer entries, the room for them is kept.
const FEW: usize = 64;

/// What is in it can be found out from what it finds.
impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Index").finish_non_exhaustive()
    }
}

impl Index {
    pub fn hash(&self, name: impl Hash) -> u32 {
        let hash = self.hasher.hash_one(name);
        u32::try_from(hash >> 32).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.several.is_empty() && self.only.iter().all(HashMap::is_empty)
    }

    /// `number_of` is the number of what is at a place.
    pub fn insert(&mut self, hash: u32, one: Numbered, number_of: impl Fn(Place) -> Option<u64>) {
        if let Some(several) = self.several.get_mut(&hash) {
            several.insert(one);
            return;
        }
        let Some(part) = self.only.get_mut(part_of(hash)) else { return };
        if let Some(other) = part.insert(hash, one.1) {
            part.remove(&hash);
            let other = number_of(other).map(|number| (number, other));
            self.several.insert(hash, other.into_iter().chain([one]).collect());
        }
    }

    /// Returns whether there are others under this hash.
    pub fn remove(&mut self, hash: u32, one: Numbered) -> bool {
        if let Some(several) = self.several.get_mut(&hash) {
            several.remove(&one);
            if several.is_empty() {
                self.several.remove(&hash);
                return false;
            }
            return true;
        }
        let Some(part) = self.only.get_mut(part_of(hash)) else { return false };
        if part.get(&hash).is_some_and(|place| *place != one.1) {
            return true;
        }
        part.remove(&hash);
        if part.is_empty() && part.capacity() > FEW {
            *part = HashMap::default();
        }
        false
    }

    /// All under this hash; of several, those with a number above `after`.
    pub fn find(&self, hash: u32, after: Option<u64>) -> impl Iterator<Item = Place> {
        let only = self.only.get(part_of(hash)).and_then(|part| part.get(&hash)).copied();
        let several = if only.is_none() && !self.several.is_empty() { self.several.get(&hash) } else { None };
        let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after, Place::MAX)));
        let several = several.into_iter().flat_map(move |several| several.range((begin, Bound::Unbounded)));
        only.into_iter().chain(several.map(|(_, place)| *place))
    }
}

fn part_of(hash: u32) -> usize {
    usize::try_from(hash).unwrap_or(0) % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_name_are_found_in_the_order_of_coming() {
        let mut index = Index::default();
        let number_of = |place: Place| Some(u64::from(place) * 10);
        let (ann, bob) = (index.hash("ann"), index.hash("bob"));
        let found = |index: &Index, hash, after| index.find(hash, after).collect::<Vec<_>>();
        assert_eq!(found(&index, ann, None), [0; 0]);
        index.insert(ann, (30, 3), number_of);
        index.insert(bob, (20, 2), number_of);
        assert_eq!((found(&index, ann, None), found(&index, bob, None)), (vec![3], vec![2]));
        index.insert(ann, (40, 4), number_of);
        index.insert(ann, (10, 1), number_of);
        assert_eq!((found(&index, ann, None), found(&index, ann, Some(10))), (vec![1, 3, 4], vec![3, 4]));
        assert!(index.remove(ann, (30, 3)) && index.remove(ann, (10, 1)), "others are left");
        assert!(!index.remove(ann, (40, 4)) && !index.remove(bob, (20, 2)));
        assert!(index.is_empty() && !index.remove(bob, (20, 2)));
    }
}
