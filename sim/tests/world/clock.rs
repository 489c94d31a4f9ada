//! Clocks that go a little too fast or too slow, and wall clocks that are set.

use std::time::Duration;

/// The Unix time at which every history begins, in µs.
const BEGINNING_US: i64 = 1_700_000_000_000_000;

/// Clients take 1 % off each lease for clocks that differ. So two clocks may differ by twice this.
pub const DRIFT_MAX: i32 = 45;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// How much it goes too fast, in parts of 10,000.
    pub drift: i32,
    /// How far it was set forward, or back.
    pub offset_ms: i64,
}

impl Clock {
    /// The time since the beginning by this clock. It cannot be set.
    pub fn steady(self, at: Duration) -> Duration {
        scaled(at, i64::from(10_000 + self.drift), 10_000)
    }

    /// The first time at which this much has passed by this clock.
    pub fn reaches(self, steady: Duration) -> Duration {
        let mut at = scaled(steady, 10_000, i64::from(10_000 + self.drift));
        while self.steady(at) < steady {
            at += Duration::from_nanos(1);
        }
        at
    }

    pub fn unix_us(self, at: Duration) -> i64 {
        BEGINNING_US + self.offset_ms * 1_000 + micros(self.steady(at))
    }

    /// The first time at which the wall clock shows this ms or a later one.
    pub fn shows(self, unix_ms: i64) -> Duration {
        let us = unix_ms.saturating_mul(1_000).saturating_sub(BEGINNING_US + self.offset_ms * 1_000);
        self.reaches(Duration::from_micros(u64::try_from(us).unwrap_or(0)))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).expect("a short history")
}

fn scaled(time: Duration, by: i64, of: i64) -> Duration {
    let nanos = i128::try_from(time.as_nanos()).expect("a short history") * i128::from(by) / i128::from(of);
    Duration::from_nanos(u64::try_from(nanos).expect("a short history"))
}
