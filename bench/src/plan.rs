//! How much is measured: the whole, or as much as fits into a few minutes.

use std::time::Duration;

pub struct Plan {
    pub is_whole: bool,
    /// How often each slope of instructions is taken, and its two run lengths in steps.
    pub counts: usize,
    pub steps: [usize; 2],
    /// How often each contender has its turn by the clock, and for how long.
    pub rounds: usize,
    pub round: Duration,
    /// The same for a process with many tasks: longer than a task should wait.
    pub task_rounds: usize,
    pub task_round: Duration,
    pub many_waiters: usize,
    pub many_tickets: usize,
    /// Few waiters for several locks, and many. Even the few are more than a release checks.
    pub sets: [usize; 2],
}

impl Plan {
    pub fn whole() -> Self {
        Self {
            is_whole: true,
            counts: 3,
            steps: [320, 1_600],
            rounds: 5,
            round: Duration::from_millis(1_500),
            task_rounds: 5,
            task_round: Duration::from_secs(8),
            many_waiters: 10_000,
            many_tickets: 1_000_000,
            sets: [200, 2_000],
        }
    }

    pub fn quick() -> Self {
        Self {
            is_whole: false,
            counts: 1,
            steps: [160, 480],
            rounds: 3,
            round: Duration::from_millis(600),
            task_rounds: 3,
            task_round: Duration::from_secs(3),
            many_waiters: 1_000,
            many_tickets: 100_000,
            sets: [200, 1_000],
        }
    }
}
