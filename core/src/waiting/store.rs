//! A store whose places are used anew, and lists through it.
//!
//! A value is in several orders at once: each lock's waiters, all waiters, all locks with waiters. So it has links of
//! each kind, and to join and to leave from the middle take the same time whatever the length. A place is four bytes,
//! since such things count at a million waiters.

/// The position of a value in a store.
pub(super) type Place = u32;

/// No place: a store is full long before it has so many.
const NOWHERE: Place = Place::MAX;

/// The places of a piece: values come in pieces, so that a million of them never move to a larger room, which would take
/// some tens of ms, and so that no half-empty room is kept.
const PIECE: usize = 256;

#[derive(Debug)]
pub(super) struct Store<T> {
    /// All pieces but the last are full.
    pieces: Vec<Vec<Slot<T>>>,
    length: usize,
    /// The first of the places that were used before; each names the next.
    free: Place,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    Free { next: Place },
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), length: 0, free: NOWHERE }
    }
}

impl<T> Store<T> {
    pub fn len(&self) -> usize {
        self.length
    }

    /// Gives the value back if there is no place for it any more.
    pub fn insert(&mut self, value: T) -> Result<Place, T> {
        let place = self.free;
        if let Some(slot) = self.slot_mut(place) {
            if let Slot::Free { next } = std::mem::replace(slot, Slot::Taken(value)) {
                self.free = next;
            }
            self.length = self.length.wrapping_add(1);
            return Ok(place);
        }
        let last = self.pieces.last().map_or(PIECE, Vec::len);
        let full = self.pieces.len().saturating_sub(usize::from(last < PIECE)).saturating_mul(PIECE);
        let place = match Place::try_from(full.saturating_add(last % PIECE)) {
            Ok(place) if place != NOWHERE => place,
            _ => return Err(value),
        };
        if last >= PIECE {
            // The first piece grows with what is in it: mostly there are few.
            let room = if self.pieces.is_empty() { 4 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(Slot::Taken(value));
            self.length = self.length.wrapping_add(1);
        }
        Ok(place)
    }

    pub fn get(&self, place: Place) -> Option<&T> {
        let (piece, index) = position(place);
        match self.pieces.get(piece)?.get(index)? {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    pub fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        match self.slot_mut(place)? {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    pub fn remove(&mut self, place: Place) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(place)?;
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let Slot::Taken(value) = std::mem::replace(slot, Slot::Free { next: free }) else { return None };
        self.free = place;
        self.length = self.length.wrapping_sub(1);
        if self.length == 0 {
            self.give_room_back();
        }
        Some(value)
    }

    /// Keeps the room of a few values for the next ones.
    fn give_room_back(&mut self) {
        self.pieces.truncate(1);
        self.pieces.iter_mut().for_each(Vec::clear);
        self.free = NOWHERE;
    }

    fn slot_mut(&mut self, place: Place) -> Option<&mut Slot<T>> {
        let (piece, index) = position(place);
        self.pieces.get_mut(piece)?.get_mut(index)
    }
}

fn position(place: Place) -> (usize, usize) {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    (place / PIECE, place % PIECE)
}

/// The neighbours of a value in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    before: Place,
    behind: Place,
}

impl Default for Links {
    fn default() -> Self {
        Self { before: NOWHERE, behind: NOWHERE }
    }
}

impl Links {
    pub fn behind(self) -> Option<Place> {
        somewhere(self.behind)
    }
}

fn somewhere(place: Place) -> Option<Place> {
    (place != NOWHERE).then_some(place)
}

/// The ends of a list. Each call says which of a value's links the list uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: Place,
    last: Place,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NOWHERE, last: NOWHERE }
    }
}

impl List {
    pub fn first(self) -> Option<Place> {
        somewhere(self.first)
    }

    /// Puts the value at this place behind all others. It must be in no list of this kind.
    pub fn push<T>(&mut self, store: &mut Store<T>, place: Place, links: impl Fn(&mut T) -> &mut Links) {
        let before = std::mem::replace(&mut self.last, place);
        match store.get_mut(before) {
            Some(last) => links(last).behind = place,
            None => self.first = place,
        }
        if let Some(value) = store.get_mut(place) {
            *links(value) = Links { before, behind: NOWHERE };
        }
    }

    /// Takes the value at this place out of the list. It must be in it.
    pub fn remove<T>(&mut self, store: &mut Store<T>, place: Place, links: impl Fn(&mut T) -> &mut Links) {
        let Some(gone) = store.get_mut(place).map(|value| std::mem::take(links(value))) else { return };
        match store.get_mut(gone.before) {
            Some(before) => links(before).behind = gone.behind,
            None => self.first = gone.behind,
        }
        match store.get_mut(gone.behind) {
            Some(behind) => links(behind).before = gone.before,
            None => self.last = gone.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Both {
        odd: Links,
        all: Links,
    }

    fn listed(store: &Store<Both>, list: List, links: impl Fn(&Both) -> Links) -> Vec<Place> {
        std::iter::successors(list.first(), |place| links(store.get(*place).unwrap()).behind()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against plain vectors: one list of all, and one of every other.
        #[test]
        fn lists_are_what_vectors_would_be(steps in prop::collection::vec((any::<bool>(), 0..50_usize), 1..200)) {
            let (mut store, mut all, mut odd) = (Store::default(), List::default(), List::default());
            let (mut expected, mut expected_odd): (Vec<Place>, Vec<Place>) = Default::default();
            for (number, (joins, which)) in steps.into_iter().enumerate() {
                if joins || expected.is_empty() {
                    let place = store.insert(Both::default()).ok().unwrap();
                    all.push(&mut store, place, |both| &mut both.all);
                    expected.push(place);
                    if number % 2 == 1 {
                        odd.push(&mut store, place, |both| &mut both.odd);
                        expected_odd.push(place);
                    }
                } else {
                    let place = expected.remove(which % expected.len());
                    all.remove(&mut store, place, |both| &mut both.all);
                    if let Some(found) = expected_odd.iter().position(|odd| *odd == place) {
                        expected_odd.remove(found);
                        odd.remove(&mut store, place, |both| &mut both.odd);
                    }
                    prop_assert!(store.remove(place).is_some() && store.remove(place).is_none());
                }
                prop_assert_eq!(store.len(), expected.len());
                prop_assert_eq!(&listed(&store, all, |both| both.all), &expected);
                prop_assert_eq!(&listed(&store, odd, |both| both.odd), &expected_odd);
            }
        }
    }
}
