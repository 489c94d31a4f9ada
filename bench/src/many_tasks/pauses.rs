//! Random times after which tasks ask again, so that they do not all ask together.

use rlock_testing::Random;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// In ms.
const LENGTHS: (u64, u64) = (10, 50);

pub struct Pauses(Mutex<Random>);

impl Default for Pauses {
    fn default() -> Self {
        Self(Mutex::new(Random::from(1)))
    }
}

impl Pauses {
    pub async fn pause(&self) {
        sleep(self.draw()).await;
    }

    fn draw(&self) -> Duration {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_millis(random.between(LENGTHS))
    }
}
