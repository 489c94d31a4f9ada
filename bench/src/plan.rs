//! How much is measured: the whole, or as much as fits into a few minutes.

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
    pub many_tickets: usize,
    /// With how many waited-for locks an idle server is looked at, how often and for how long; and how long it has before that
    /// for what it does to new connections, such as taking back the memory that it gave them to begin with.
    pub idle_locks: &'static [usize],
    pub idle_looks: usize,
    pub idle_look: Duration,
    pub idle_settles: Duration,
    /// How often a process of many tasks has its turn, and for how long: longer than any of them should wait.
    pub task_turns: usize,
    pub task_turn: Duration,
    /// How often thousands are served at one stroke.
    pub storms: usize,
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
            many_tickets: 1_000_000,
            idle_locks: &[0, 1_000, 10_000, 100_000],
            idle_looks: 3,
            idle_look: Duration::from_secs(5),
            idle_settles: Duration::from_secs(8),
            task_turns: 5,
            task_turn: Duration::from_secs(8),
            storms: 3,
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
            many_tickets: 100_000,
            idle_locks: &[0, 1_000, 10_000],
            idle_looks: 3,
            idle_look: Duration::from_secs(1),
            idle_settles: Duration::from_secs(6),
            task_turns: 3,
            task_turn: Duration::from_secs(3),
            storms: 1,
        }
    }
}
