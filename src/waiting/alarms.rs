//! The alarms: for waits that end, and for locks whose lease ends while clients wait for them.
//!
//! All alarms share one timer of the server, armed for the earliest. A waiter or lock with an alarm keeps its [`Slot`],
//! by which the alarm is cancelled; so no lock's name is stored twice. An alarm that is no longer needed may still go
//! off: its receiver looks at the lock or the waiter, and finds nothing to do.

use super::queue::{LockId, Ticket};
use crate::lock::UnixMs;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// This waiter's time is up.
    Deadline(Ticket),
    /// The lease of this lock, for which a client waits, has ended, unless somebody has made it longer.
    LeaseEnd(LockId),
}

/// An alarm that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub time: UnixMs,
    /// Alarms for the same time go off in the order in which they were set.
    number: u64,
}

#[derive(Debug, Default)]
pub struct Alarms {
    by_time: BTreeMap<Slot, Alarm>,
    next_number: u64,
}

impl Alarms {
    /// The time of the earliest alarm.
    #[must_use]
    pub fn next(&self) -> Option<UnixMs> {
        self.by_time.first_key_value().map(|(slot, _)| slot.time)
    }

    pub fn set(&mut self, time: UnixMs, alarm: Alarm) -> Slot {
        self.next_number = self.next_number.wrapping_add(1);
        let slot = Slot { time, number: self.next_number };
        self.by_time.insert(slot, alarm);
        slot
    }

    /// Takes an alarm back, if it has not gone off.
    pub fn cancel(&mut self, slot: Slot) {
        self.by_time.remove(&slot);
    }

    /// Takes the earliest alarm, if its time has come.
    pub fn take_due(&mut self, now: UnixMs) -> Option<Alarm> {
        let earliest = self.by_time.first_entry().filter(|earliest| earliest.key().time <= now)?;
        Some(earliest.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{LockName, Queues};

    #[test]
    fn alarms_go_off_in_time_and_in_order() {
        let mut queues = Queues::<(), ()>::default();
        let lock = LockName { database: 0, key: b"k" };
        let [(first, id), (second, _), (third, _)] = [(); 3].map(|()| queues.join(lock, (), 0, 3).unwrap());
        let mut alarms = Alarms::default();
        alarms.set(20, Alarm::Deadline(second));
        let cancelled = alarms.set(15, Alarm::Deadline(third));
        alarms.set(10, Alarm::Deadline(first));
        alarms.set(20, Alarm::LeaseEnd(id));
        assert_eq!(alarms.next(), Some(10));
        assert_eq!(alarms.take_due(9), None);
        assert_eq!(alarms.take_due(10), Some(Alarm::Deadline(first)));
        alarms.cancel(cancelled);
        assert_eq!(alarms.next(), Some(20));
        assert_eq!(alarms.take_due(25), Some(Alarm::Deadline(second)));
        assert_eq!(alarms.take_due(25), Some(Alarm::LeaseEnd(id)));
        assert_eq!((alarms.take_due(99), alarms.next()), (None, None));
        alarms.cancel(cancelled);
    }
}
