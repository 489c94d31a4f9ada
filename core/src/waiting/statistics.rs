//! Counters of waiting; and how long waiters waited for their grants: a small histogram in which each class includes
//! all shorter waits, as monitoring systems sum them up.

/// Counted from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Grants without a wait.
    pub granted_at_once: u64,
    /// Requests that did not get the lock and did not wait.
    pub refusals: u64,
    /// Requests that would have waited, but found too many waiters.
    pub turned_away: u64,
    pub waits: u64,
    /// How long waiters waited for their grants.
    pub waited: WaitHistogram,
    /// Grants to waiters by the release, or the break, that made the lock free.
    pub hand_offs: u64,
    pub timeouts: u64,
    pub cancelled: u64,
    /// Leases that ran out while a client waited for the lock.
    pub lease_expiries: u64,
    pub breaks: u64,
    /// Answers that were stored.
    pub answers_stored: u64,
    /// Requests that got an answer, at once or after a wait.
    pub answers_given: u64,
}

/// The longest wait, in ms, of each class except the last, which includes all waits.
pub const CLASSES: [i64; 5] = [1, 10, 100, 1_000, 10_000];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitHistogram {
    /// The waits in this class and in no shorter one; the last counts those longer than all classes.
    counts: [u64; CLASSES.len() + 1],
    sum_ms: u64,
}

impl WaitHistogram {
    pub fn add(&mut self, ms: i64) {
        let class = CLASSES.iter().position(|most| ms <= *most).unwrap_or(CLASSES.len());
        if let Some(count) = self.counts.get_mut(class) {
            *count = count.wrapping_add(1);
        }
        self.sum_ms = self.sum_ms.wrapping_add(u64::try_from(ms).unwrap_or(0));
    }

    /// The number of waits that were no longer than each class says; the last is the number of all waits.
    #[must_use]
    pub fn up_to(&self) -> [u64; CLASSES.len() + 1] {
        let mut sum = 0_u64;
        self.counts.map(|count| {
            sum = sum.wrapping_add(count);
            sum
        })
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all waits.
    #[must_use]
    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_all_that_are_no_longer() {
        let mut waits = WaitHistogram::default();
        for ms in [0, 1, 2, 10, 11, 100, 101, 1_000, 1_001, 10_000, 10_001, i64::MAX] {
            waits.add(ms);
        }
        assert_eq!(waits.up_to(), [2, 4, 6, 8, 10, 12]);
        assert_eq!(waits.count(), 12);
    }

    #[test]
    fn a_clock_that_was_put_back_is_no_wait() {
        let mut waits = WaitHistogram::default();
        waits.add(-5);
        waits.add(7);
        assert_eq!((waits.up_to(), waits.sum_ms()), ([1, 2, 2, 2, 2, 2], 7));
    }
}
