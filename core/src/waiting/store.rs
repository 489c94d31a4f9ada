//! A store whose places are used again, and lists through it.
//!
//! A value is in several lists at once: each lock's waiters, all waiters, all locks with waiters. So it has links of
//! each kind, and joining and leaving from the middle take the same time whatever the length. A place is four bytes,
//! since bytes count at a million waiters.
//!
//! Two such orders have a type of their own: [`Alarms`], by time, and [`Lengths`], of queues by their length.

use crate::lock::UnixMs;
use std::collections::BTreeMap;

/// The position of a value in a store.
pub(super) type Place = u32;

/// No place: a store is full long before it has so many.
const NOWHERE: Place = Place::MAX;

/// The number of places in a piece. Values are stored in pieces, so that a million of them never move to a larger room,
/// which would take some tens of ms, and so that no half-empty room is kept.
const PIECE: usize = 256;

#[derive(Debug)]
pub(super) struct Store<T> {
    /// All pieces but the last are full.
    pieces: Vec<Vec<Slot<T>>>,
    length: usize,
    /// The first free place that was used before; each names the next.
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

    /// Returns the value if there is no place left for it.
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
            // The first piece grows with its values: mostly there are few.
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

    /// Takes the value at this place out of the list. It must be in the list.
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

/// The alarms of one kind, such as for waits that end: which is the next, and what it is for.
///
/// Alarms for the same ms are a list through the store of what they are for. So a million waits that end at about the
/// same time have a few hundred entries, and an alarm is taken back without a search. An alarm that is no longer needed
/// may still go off: its receiver looks at what it is for, and finds nothing to do.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    by_time: BTreeMap<UnixMs, List>,
}

/// What a value keeps of its alarm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    time: UnixMs,
    links: Links,
}

/// The time of an alarm that is not set: no clock gets there.
pub(super) const NEVER: UnixMs = UnixMs::MAX;

impl Default for Alarm {
    fn default() -> Self {
        Self { time: NEVER, links: Links::default() }
    }
}

impl Alarm {
    /// When it goes off, if it is set.
    pub fn time(self) -> Option<UnixMs> {
        (self.time != NEVER).then_some(self.time)
    }
}

impl Alarms {
    /// The time of the earliest alarm; without one, [`NEVER`].
    pub fn next(&self) -> UnixMs {
        self.by_time.first_key_value().map_or(NEVER, |(time, _)| *time)
    }

    /// Sets the alarm of the value at this place, in place of an earlier one. Alarms for the same time go off in the order in
    /// which they were set.
    pub fn set<T>(&mut self, store: &mut Store<T>, place: Place, time: UnixMs, alarm: impl Fn(&mut T) -> &mut Alarm) {
        self.cancel(store, place, &alarm);
        if time == NEVER {
            return;
        }
        let Some(value) = store.get_mut(place) else { return };
        alarm(value).time = time;
        self.by_time.entry(time).or_default().push(store, place, |value| &mut alarm(value).links);
    }

    /// Takes an alarm back, if it is set.
    pub fn cancel<T>(&mut self, store: &mut Store<T>, place: Place, alarm: impl Fn(&mut T) -> &mut Alarm) {
        let Some(value) = store.get_mut(place) else { return };
        let time = std::mem::replace(&mut alarm(value).time, NEVER);
        if time == NEVER {
            return;
        }
        if let Some(list) = self.by_time.get_mut(&time) {
            list.remove(store, place, |value| &mut alarm(value).links);
            if list.first().is_none() {
                self.by_time.remove(&time);
            }
        }
    }

    /// Takes the earliest alarm, if its time has come. Returns the place that it was set for.
    pub fn take_due<T>(
        &mut self,
        store: &mut Store<T>,
        now: UnixMs,
        alarm: impl Fn(&mut T) -> &mut Alarm,
    ) -> Option<Place> {
        let (_, list) = self.by_time.first_key_value().filter(|(time, _)| **time <= now)?;
        let place = list.first()?;
        self.cancel(store, place, alarm);
        Some(place)
    }
}

/// Lengths below this keep their list, once a queue was that long.
const SHORT: usize = 1_024;

/// The locks of a database by the length of their queues. Among equally long ones, the first has not changed for longest.
///
/// Each hand-over makes a queue shorter, and mostly it grows again. So most lengths have a list that stays when it
/// is empty; only the few long queues have lists that come and go.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    short: Vec<List>,
    long: BTreeMap<u32, List>,
    locks: usize,
}

impl Lengths {
    pub fn is_empty(&self) -> bool {
        self.locks == 0
    }

    pub fn insert<T>(&mut self, store: &mut Store<T>, place: Place, length: u32, links: impl Fn(&mut T) -> &mut Links) {
        self.locks = self.locks.saturating_add(1);
        let index = as_count(length);
        if index >= SHORT {
            self.long.entry(length).or_default().push(store, place, links);
            return;
        }
        if index >= self.short.len() {
            self.short.resize(index.saturating_add(1), List::default());
        }
        if let Some(list) = self.short.get_mut(index) {
            list.push(store, place, links);
        }
    }

    pub fn remove<T>(&mut self, store: &mut Store<T>, place: Place, length: u32, links: impl Fn(&mut T) -> &mut Links) {
        self.locks = self.locks.saturating_sub(1);
        if let Some(list) = self.short.get_mut(as_count(length)) {
            list.remove(store, place, links);
        } else if let Some(list) = self.long.get_mut(&length) {
            list.remove(store, place, links);
            if list.first().is_none() {
                self.long.remove(&length);
            }
        }
    }

    /// The first lock of each length, the longest first.
    pub fn longest_first(&self) -> impl Iterator<Item = Place> {
        let lists = self.long.values().rev().chain(self.short.iter().rev());
        lists.filter_map(|list| list.first())
    }

    /// The length of the longest queue.
    pub fn longest(&self) -> usize {
        let short = || self.short.iter().rposition(|list| list.first().is_some()).unwrap_or(0);
        self.long.last_key_value().map_or_else(short, |(length, _)| as_count(*length))
    }
}

pub(super) fn as_count(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
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

    fn own(alarm: &mut Alarm) -> &mut Alarm {
        alarm
    }

    #[test]
    fn alarms_go_off_in_time_and_in_order() {
        let (mut store, mut alarms) = (Store::<Alarm>::default(), Alarms::default());
        let [first, second, third, fourth] = [(); 4].map(|()| store.insert(Alarm::default()).unwrap());
        alarms.set(&mut store, second, 20, own);
        alarms.set(&mut store, third, 15, own);
        alarms.set(&mut store, first, 5, own);
        alarms.set(&mut store, first, 10, own);
        alarms.set(&mut store, fourth, 20, own);
        assert_eq!((alarms.next(), store.get(first).unwrap().time()), (10, Some(10)), "set anew");
        assert_eq!(alarms.take_due(&mut store, 9, own), None);
        assert_eq!(alarms.take_due(&mut store, 10, own), Some(first));
        assert_eq!(store.get(first).unwrap().time(), None);
        alarms.cancel(&mut store, third, own);
        assert_eq!(alarms.next(), 20);
        assert_eq!(alarms.take_due(&mut store, 25, own), Some(second));
        assert_eq!(alarms.take_due(&mut store, 25, own), Some(fourth));
        assert_eq!((alarms.take_due(&mut store, 99, own), alarms.next()), (None, NEVER));
        alarms.cancel(&mut store, third, own);
        alarms.set(&mut store, third, UnixMs::MAX, own);
        assert_eq!(alarms.next(), NEVER);
    }
    #[test]
    fn the_longest_queue_comes_first_among_short_and_long_ones() {
        let (mut store, mut lengths) = (Store::<Links>::default(), Lengths::default());
        let mut queues: Vec<_> = [3, 2_000, 1_023, 1_024, 5_000, 0]
            .map(|length| {
                let place = store.insert(Links::default()).ok().unwrap();
                lengths.insert(&mut store, place, length, |links| links);
                (length, place)
            })
            .into();
        queues.sort_unstable();
        while let Some((length, place)) = queues.pop() {
            assert_eq!(lengths.longest(), as_count(length));
            let rest = queues.iter().rev().map(|(_, place)| *place);
            assert!(lengths.longest_first().eq(std::iter::once(place).chain(rest)));
            assert!(!lengths.is_empty());
            lengths.remove(&mut store, place, length, |links| links);
        }
        assert!(lengths.is_empty() && lengths.long.is_empty());
    }

    #[test]
    fn the_room_of_many_values_goes_with_the_last() {
        let mut store = Store::default();
        let places: Vec<_> = (0..3 * PIECE).map(|value| store.insert(value).unwrap()).collect();
        assert_eq!(store.pieces.len(), 3);
        for place in places {
            store.remove(place);
        }
        assert_eq!((store.pieces.len(), store.insert(7)), (1, Ok(0)));
    }
}
