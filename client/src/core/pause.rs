//! Pauses between tries, each longer than the one before.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    next: Duration,
    factor: u32,
    longest: Duration,
}

impl Pause {
    /// For what may be over any moment.
    pub(super) fn short() -> Self {
        Self { next: Duration::from_millis(20), factor: 2, longest: Duration::from_secs(1) }
    }

    /// For what is most likely over already.
    pub(super) fn growing() -> Self {
        Self { next: Duration::from_millis(50), factor: 3, longest: Duration::MAX }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause.saturating_mul(self.factor)).min(self.longest);
        pause
    }
}
