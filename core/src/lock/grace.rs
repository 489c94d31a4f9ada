//! The grace after a failover or a restart, as it is at one moment.
//!
//! Replication is asynchronous, so a new master may not know a lock that the old one granted, and a restarted server may have
//! lost its last writes. But the holder of such a lock believes in it no longer than its lease, and no lease is longer than the
//! grace. So for that long no lock is granted, not even to the holder that the server has on record, since the lost write may
//! be its release. Renewals and releases grant nothing, and go on.

use super::{Refusal, UnixMs};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// The length of a whole grace, and the longest lease; 0: there is no grace, and no bound for leases.
    pub length_ms: i64,
    /// The ms left of the grace; 0: no grace runs.
    pub left_ms: i64,
}

impl Grace {
    #[must_use]
    pub fn is_running(self) -> bool {
        self.left_ms > 0
    }

    /// # Errors
    /// [`Refusal::LeaseAboveGrace`] if a lease until `end` is longer than a grace: its holder could believe in it for longer.
    pub(super) fn check(self, end: UnixMs, now: UnixMs) -> Result<(), Refusal> {
        let is_within = self.length_ms == 0 || end.saturating_sub(now) <= self.length_ms;
        if is_within { Ok(()) } else { Err(Refusal::LeaseAboveGrace) }
    }

    /// The ms after which a client may ask again for a lock with this much left of its lease; -1 if the lock has no expiry.
    #[must_use]
    pub fn left_of(self, lease_left_ms: i64) -> i64 {
        if lease_left_ms < 0 { lease_left_ms } else { lease_left_ms.max(self.left_ms) }
    }
}

/// The longer of two times left, as PTTL gives them: -1, of a lock without an expiry, is the longest.
#[must_use]
pub fn longer_left(one: i64, other: i64) -> i64 {
    if one < 0 || other < 0 { -1 } else { one.max(other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_is_longer_than_the_grace() {
        let grace = Grace { length_ms: 10, left_ms: 0 };
        assert_eq!((grace.check(15, 5), grace.check(16, 5)), (Ok(()), Err(Refusal::LeaseAboveGrace)));
        assert_eq!(Grace::default().check(i64::MAX, 0), Ok(()));
    }

    #[test]
    fn an_answer_tells_what_lasts_longer() {
        let grace = Grace { length_ms: 10, left_ms: 7 };
        assert_eq!([-1, 0, 6, 8].map(|left| grace.left_of(left)), [-1, 7, 7, 8]);
        assert_eq!([-1, 0, 6].map(|left| Grace::default().left_of(left)), [-1, 0, 6]);
    }

    #[test]
    fn without_an_expiry_a_lock_lasts_longest() {
        assert_eq!([(5, 7), (7, 5), (0, 5), (5, 0)].map(|(one, other)| longer_left(one, other)), [7, 7, 5, 5]);
        assert_eq!([(-1, 5), (5, -1)].map(|(one, other)| longer_left(one, other)), [-1, -1]);
    }
}
