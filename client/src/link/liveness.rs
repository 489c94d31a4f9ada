//! Whether a server that keeps a client waiting still runs. A server that stands still leaves its connections open, and
//! a wait on it would never end; so it is asked now and then, once for all that wait.

use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

#[derive(Default)]
pub(super) struct Liveness(Mutex<Option<Check>>);

/// What came of asking the last time.
struct Check {
    at: Instant,
    alive: bool,
}

impl Liveness {
    /// Resolves when the server has been asked and does not answer. It is asked at this distance, by `answers`.
    pub(super) async fn ended<F: Future<Output = bool>>(&self, distance: Duration, answers: impl Fn() -> F) {
        loop {
            sleep(distance).await;
            let mut last = self.0.lock().await;
            let check = match last.take().filter(|check| check.at.elapsed() < distance) {
                Some(check) => check,
                None => Check { alive: answers().await, at: Instant::now() },
            };
            if !last.insert(check).alive {
                return;
            }
        }
    }
}
