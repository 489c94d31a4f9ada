//! Moments that can be compared across the processes of a run.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds of the clock that no one can set, and that is the same for all processes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(pub u64);

impl Moment {
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
        Self(Duration::from(time).as_nanos().try_into().expect("the machine has not run for 500 years"))
    }

    /// How long after `earlier`; nothing if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time.as_nanos().try_into().unwrap_or(u64::MAX)))
    }
}
