//! Pauses between tries, each longer than the one before, and how long the client keeps asking silent servers.

use super::fault::Fault;
use super::terms::Until;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    next: Duration,
    factor: u32,
    longest: Duration,
}

impl Pause {
    /// For trouble that may end at any moment.
    pub(super) fn short() -> Self {
        Self { next: Duration::from_millis(20), factor: 2, longest: Duration::from_secs(1) }
    }

    /// For trouble that has most likely ended already.
    pub(super) fn growing() -> Self {
        Self { next: Duration::from_millis(50), factor: 3, longest: Duration::MAX }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause.saturating_mul(self.factor)).min(self.longest);
        pause
    }
}

/// Since when servers have not replied, and when to ask again.
pub(super) struct Outage {
    since: Option<Instant>,
    asked_at: Instant,
    pause: Pause,
}

impl Outage {
    pub(super) fn none(now: Instant) -> Self {
        Self { since: None, asked_at: now, pause: Pause::short() }
    }

    /// When to ask again; `None` to stop. `longest_failure`: the maximum time that a request takes to fail without
    /// reaching a server. A request that took longer was a wait.
    pub(super) fn goes_on(
        &mut self,
        now: Instant,
        fault: &Fault,
        until: Until,
        patience: Duration,
        longest_failure: Duration,
    ) -> Option<Instant> {
        if now.saturating_duration_since(self.asked_at) > longest_failure {
            *self = Self::none(now);
        }
        let first = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        // A connection that broke unnoticed says nothing about the server.
        let at_once = first && fault.is_prompt();
        let patient = match until {
            Until::Now => at_once,
            Until::Time(_) | Until::Granted => !until.is_over(now) && now.saturating_duration_since(since) < patience,
        };
        if !fault.may_pass() || !patient {
            return None;
        }
        let pause = if at_once { Duration::ZERO } else { self.pause.next() };
        self.asked_at = now + until.left(now).map_or(pause, |left| left.min(pause));
        Some(self.asked_at)
    }
}
