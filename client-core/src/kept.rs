//! What an engine keeps in mind, by numbers: after everything has come to its end, nothing.

use super::line::Line;
use super::{Engine, LineId};
use std::time::{Duration, Instant};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Kept {
    pub attempts: usize,
    /// Attempts among them whose caller has gone.
    pub leaving: usize,
    pub releases: usize,
    pub holds: usize,
    /// Holds among them of an owner that the caller chose.
    pub owners: usize,
    pub crowds: usize,
    /// Requests that wait until it is known where locks are.
    pub parked: usize,
    /// Renewals that wait for replicas, and rounds of them.
    pub unconfirmed: usize,
    pub rounds: usize,
    /// What is due at some time.
    pub due: usize,
    pub settling: usize,
    pub busy_lines: usize,
    pub sessions: usize,
}

impl Engine {
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept {
            attempts: self.attempts.len(),
            leaving: self.leaving,
            releases: self.givings.len(),
            holds: self.holds.len(),
            owners: self.named.len(),
            crowds: self.crowds.len(),
            parked: self.parked.len(),
            unconfirmed: self.unconfirmed.len(),
            rounds: self.rounds.len(),
            due: self.timers.len().saturating_add(self.due.len()),
            settling: self.settling.len(),
            busy_lines: self.lines.values().filter(|line| !line.is_idle()).count(),
            sessions: self.nodes.values().filter(|node| node.session.is_some()).count(),
        }
    }

    /// In how much time each thing is due.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<Duration> {
        let due = self.timers.iter().map(|it| it.0).chain(self.due.iter().map(|it| it.0));
        due.map(|at| at.saturating_duration_since(now)).collect()
    }

    /// Whether a connection is kept only for answers that are late.
    #[must_use]
    pub fn is_retired(&self, line: LineId) -> bool {
        self.lines.get(&line).is_some_and(Line::is_retired)
    }
}
