//! The alarms of one kind, such as for waits that end: which is the next, and what it is for.
//!
//! Alarms for the same ms are a list through the store of what they are for. So a million waits that end at about the
//! same time have a few hundred entries, and an alarm is taken back without a search. An alarm that is no longer needed
//! may still go off: its receiver looks at what it is for, and finds nothing to do.

use super::store::{Links, List, Place, Store};
use crate::lock::UnixMs;
use std::collections::BTreeMap;

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

/// The time of no alarm: no clock comes there.
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

    /// Sets the alarm of the value at this place, or sets it anew. Alarms for the same time go off in the order in
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
