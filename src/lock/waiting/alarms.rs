//! What is to be looked at when: waits that end, and locks whose lease ends while others wait for them.
//!
//! All of it goes through one timer of the server, armed for the earliest. An alarm that is no longer needed may still
//! go off: whoever hears it looks at the lock or the waiter, and finds nothing to do.

use super::Map;
use crate::lock::{LockName, Ticket, UnixMs};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// This waiter's time is up.
    Deadline(Ticket),
    /// This lock, which somebody waits for, may have become free.
    Lock { database: i32, key: Box<[u8]> },
}

#[derive(Debug, Default)]
pub struct Alarms {
    /// By time, then by the order in which they were set.
    by_time: BTreeMap<Slot, Alarm>,
    deadlines: Map<Ticket, Slot>,
    /// By database, then key, so that a borrowed key finds its alarm.
    locks: Map<i32, Map<Box<[u8]>, Slot>>,
    next_number: u64,
}

type Slot = (UnixMs, u64);

impl Alarms {
    /// The time of the earliest alarm.
    #[must_use]
    pub fn next(&self) -> Option<UnixMs> {
        self.by_time.first_key_value().map(|((time, _), _)| *time)
    }

    pub fn set_deadline(&mut self, ticket: Ticket, time: UnixMs) {
        let slot = self.slot(time);
        self.by_time.insert(slot, Alarm::Deadline(ticket));
        self.deadlines.insert(ticket, slot);
    }

    /// When a waiter's time is up, if it is ever.
    #[must_use]
    pub fn deadline(&self, ticket: Ticket) -> Option<UnixMs> {
        self.deadlines.get(&ticket).map(|slot| slot.0)
    }

    pub fn forget_deadline(&mut self, ticket: Ticket) {
        // Many wait for ever.
        if self.deadlines.is_empty() {
            return;
        }
        if let Some(slot) = self.deadlines.remove(&ticket) {
            self.by_time.remove(&slot);
        }
    }

    /// Has a lock looked at no later than `time`.
    pub fn look_at(&mut self, lock: LockName<'_>, time: UnixMs) {
        let slot = self.slot(time);
        let locks = self.locks.entry(lock.database).or_default();
        match locks.get_mut(lock.key) {
            Some(set) if set.0 <= time => return,
            Some(set) => drop(self.by_time.remove(&std::mem::replace(set, slot))),
            None => drop(locks.insert(lock.key.into(), slot)),
        }
        self.by_time.insert(slot, Alarm::Lock { database: lock.database, key: lock.key.into() });
    }

    pub fn forget_lock(&mut self, lock: LockName<'_>) {
        if let Some(slot) = self.forget_name(lock) {
            self.by_time.remove(&slot);
        }
    }

    fn forget_name(&mut self, lock: LockName<'_>) -> Option<Slot> {
        let locks = self.locks.get_mut(&lock.database)?;
        let slot = locks.remove(lock.key);
        if locks.is_empty() {
            self.locks.remove(&lock.database);
        }
        slot
    }

    /// Takes the earliest alarm whose time has come.
    pub fn take_due(&mut self, now: UnixMs) -> Option<Alarm> {
        let earliest = self.by_time.first_entry().filter(|earliest| earliest.key().0 <= now)?;
        let alarm = earliest.remove();
        match &alarm {
            Alarm::Deadline(ticket) => drop(self.deadlines.remove(ticket)),
            Alarm::Lock { database, key } => drop(self.forget_name(LockName { database: *database, key })),
        }
        Some(alarm)
    }

    fn slot(&mut self, time: UnixMs) -> Slot {
        self.next_number = self.next_number.wrapping_add(1);
        (time, self.next_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Queues;

    fn lock(key: &[u8]) -> LockName<'_> {
        LockName { database: 0, key }
    }

    fn tickets<const N: usize>() -> [Ticket; N] {
        let mut queues = Queues::default();
        [(); N].map(|()| queues.join(lock(b"k"), (), 0, N).unwrap())
    }

    #[test]
    fn alarms_go_off_in_time_and_in_order() {
        let mut alarms = Alarms::default();
        let [first, second, third] = tickets();
        alarms.set_deadline(second, 20);
        alarms.set_deadline(first, 10);
        alarms.set_deadline(third, 20);
        assert_eq!(alarms.next(), Some(10));
        assert_eq!(alarms.deadline(second), Some(20));
        assert_eq!(alarms.take_due(9), None);
        for ticket in [first, second, third] {
            assert_eq!(alarms.take_due(20), Some(Alarm::Deadline(ticket)));
            assert_eq!(alarms.deadline(ticket), None);
        }
        assert_eq!((alarms.take_due(i64::MAX), alarms.next()), (None, None));
    }

    #[test]
    fn a_lock_is_looked_at_once_at_the_earliest_time() {
        let mut alarms = Alarms::default();
        for time in [30, 10, 20] {
            alarms.look_at(lock(b"k"), time);
        }
        alarms.look_at(lock(b"l"), 15);
        let named = |key: &[u8]| Some(Alarm::Lock { database: 0, key: key.into() });
        assert_eq!(alarms.take_due(100), named(b"k"));
        assert_eq!(alarms.take_due(100), named(b"l"));
        assert_eq!(alarms.take_due(100), None);
        alarms.look_at(lock(b"k"), 40);
        assert_eq!(alarms.next(), Some(40), "an alarm that went off can be set again");
    }

    #[test]
    fn what_is_forgotten_does_not_go_off() {
        let mut alarms = Alarms::default();
        let [ticket] = tickets();
        alarms.set_deadline(ticket, 10);
        alarms.look_at(lock(b"k"), 10);
        alarms.forget_deadline(ticket);
        alarms.forget_deadline(ticket);
        alarms.forget_lock(lock(b"k"));
        alarms.forget_lock(lock(b"k"));
        assert_eq!((alarms.next(), alarms.take_due(i64::MAX)), (None, None));
        assert!(alarms.deadlines.is_empty() && alarms.locks.is_empty());
    }
}
