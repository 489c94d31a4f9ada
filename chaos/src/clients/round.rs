//! When a round is over for its clients. Nothing new is begun then, and what was begun is brought to an end soon, so that
//! the processes of a round end together whatever the servers do.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// For how long after the end somebody waits for a lock.
const WAITS: Duration = Duration::from_millis(200);

/// For how long after the end answers are waited for.
const ANSWERS: Duration = Duration::from_millis(1_500);

/// When the process ends whatever is outstanding.
const ALL: Duration = Duration::from_millis(1_900);

#[derive(Clone, Copy, Debug)]
pub struct Round {
    end: Instant,
}

impl Round {
    pub fn of(length: Duration) -> Self {
        Self { end: Instant::now() + length }
    }

    pub fn is_over(self) -> bool {
        self.end <= Instant::now()
    }

    /// Sleeps for that long, but not beyond the end.
    pub async fn pause(self, time: Duration) {
        sleep_until(self.end.min(Instant::now() + time)).await;
    }

    /// Until when somebody waits for a lock who is ready to wait for that long.
    pub fn waits(self, time: Duration) -> Instant {
        (self.end + WAITS).min(Instant::now() + time)
    }

    /// Until when an answer is waited for that may take that long.
    pub fn answers(self, time: Duration) -> Instant {
        (self.end + ANSWERS).min(Instant::now() + time)
    }

    pub fn last_moment(self) -> Instant {
        self.end + ALL
    }
}
