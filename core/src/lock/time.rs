//! Leases and the moments they end. All clocks are the server's, in Unix milliseconds, and are passed in.

use super::Refusal;

pub type UnixMs = i64;

/// A requested time to live: at least 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ms: i64,
}

impl Lease {
    #[must_use]
    pub fn from_ms(ms: i64) -> Option<Self> {
        (ms >= 1).then_some(Self { ms })
    }

    /// The moment a lease that starts at `start` ends.
    ///
    /// # Errors
    /// [`Refusal::LeaseTooLong`] where the server could not store that moment.
    pub fn end(self, start: UnixMs) -> Result<UnixMs, Refusal> {
        start.checked_add(self.ms).ok_or(Refusal::LeaseTooLong)
    }
}

/// When a key goes by itself. `Never` is later than any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    At(UnixMs),
    Never,
}

impl Expiry {
    /// The time left, as PTTL gives it: never negative, -1 for no expiry.
    #[must_use]
    pub fn left_ms(self, now: UnixMs) -> i64 {
        match self {
            Self::At(end) => end.saturating_sub(now).max(0),
            Self::Never => -1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_at_least_one_ms_and_ends_within_the_servers_time() {
        assert_eq!(Lease::from_ms(0), None);
        assert_eq!(Lease::from_ms(-1), None);
        let longest = Lease::from_ms(i64::MAX).unwrap();
        assert_eq!(longest.end(0), Ok(i64::MAX));
        assert_eq!(longest.end(1), Err(Refusal::LeaseTooLong));
    }

    #[test]
    fn never_is_later_than_any_moment_and_nothing_left_is_zero() {
        assert!(Expiry::Never > Expiry::At(i64::MAX));
        assert_eq!(Expiry::Never.left_ms(5), -1);
        assert_eq!(Expiry::At(7).left_ms(5), 2);
        assert_eq!(Expiry::At(5).left_ms(7), 0);
    }
}
