//! Servers that do not answer: for how long they have not, and whether they are asked once more.

use super::pause::Pause;
use super::terms::Until;
use crate::link::Fault;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(super) struct Outage {
    patience: Duration,
    since: Option<Instant>,
    asked_at: Instant,
    /// Longer than any request takes to fail that reaches nobody: one that took longer was a wait.
    longest_failure: Duration,
    pause: Pause,
}

impl Outage {
    pub(super) fn new(patience: Duration, longest_failure: Duration) -> Self {
        Self { patience, since: None, asked_at: Instant::now(), longest_failure, pause: Pause::short() }
    }

    pub(super) fn is_over(&mut self) {
        *self = Self::new(self.patience, self.longest_failure);
    }

    /// Pauses before the next try, or gives the fault back if there is to be none.
    pub(super) async fn goes_on(&mut self, fault: Fault, until: Until) -> Result<(), Fault> {
        if self.asked_at.elapsed() > self.longest_failure {
            self.is_over();
        }
        let first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        // A connection that had broken unnoticed says nothing about the server.
        let at_once = first && fault.is_prompt();
        let patient = match until {
            Until::Now => at_once,
            Until::Time(_) | Until::Granted => !until.is_over() && since.elapsed() < self.patience,
        };
        if !fault.may_pass() || !patient {
            return Err(fault);
        }
        if !at_once {
            let pause = self.pause.next();
            sleep(until.left().map_or(pause, |left| left.min(pause))).await;
        }
        self.asked_at = Instant::now();
        Ok(())
    }
}
