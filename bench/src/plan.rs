//! How much is measured: the whole, or as much as fits into two minutes.

use std::time::Duration;

pub struct Plan {
    pub is_whole: bool,
    /// How often each slope of instructions is taken.
    pub counts: usize,
    /// The two run lengths of a slope, in steps.
    pub short: usize,
    pub long: usize,
    /// How often each contender has its turn by the clock, and for how long.
    pub turns: usize,
    pub turn: Duration,
    /// The same for hand-offs.
    pub hand_off_turns: usize,
    pub hand_off_turn: Duration,
    pub many_locks: usize,
    pub many_waiters: usize,
}

impl Plan {
    pub fn whole() -> Self {
        Self {
            is_whole: true,
            counts: 3,
            short: 320,
            long: 1_600,
            turns: 25,
            turn: Duration::from_millis(100),
            hand_off_turns: 5,
            hand_off_turn: Duration::from_millis(1_500),
            many_locks: 1_000_000,
            many_waiters: 10_000,
        }
    }

    pub fn quick() -> Self {
        Self {
            is_whole: false,
            counts: 1,
            short: 160,
            long: 480,
            turns: 9,
            turn: Duration::from_millis(50),
            hand_off_turns: 3,
            hand_off_turn: Duration::from_millis(600),
            many_locks: 100_000,
            many_waiters: 1_000,
        }
    }
}
