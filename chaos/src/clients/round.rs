//! The end of a round for its clients: they begin nothing new, and soon finish what they have begun, so that the
//! processes of a round end together whatever the servers do.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long after the end of a round a client still waits for a lock.
const WAITS: Duration = Duration::from_millis(200);

/// How long after the end of a round a client still waits for an answer.
const ANSWERS: Duration = Duration::from_millis(1_500);

/// How long after the end of a round the process ends, whatever is outstanding.
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

    /// The end of a wait of that length.
    pub fn waits(self, time: Duration) -> Instant {
        (self.end + WAITS).min(Instant::now() + time)
    }

    /// The end of a wait for an answer that may take that long.
    pub fn answers(self, time: Duration) -> Instant {
        (self.end + ANSWERS).min(Instant::now() + time)
    }

    pub fn last_moment(self) -> Instant {
        self.end + ALL
    }
}
