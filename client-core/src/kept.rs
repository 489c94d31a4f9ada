//! How many entries an engine has: none after everything has ended.

use super::connection::Connection;
use super::{ConnectionId, Engine};
use std::time::{Duration, Instant};

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Kept {
    pub attempts: usize,
    /// Attempts without their caller.
    pub leaving: usize,
    pub releases: usize,
    pub holds: usize,
    /// Holds with an owner that the caller chose.
    pub owners: usize,
    pub local_queues: usize,
    /// Requests that wait for a look-up.
    pub parked: usize,
    /// Renewals that wait for replicas, and their rounds.
    pub unconfirmed: usize,
    pub rounds: usize,
    /// Timers and due renewals.
    pub due: usize,
    pub settling: usize,
    pub busy_connections: usize,
    pub sessions: usize,
}

impl Engine {
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept {
            attempts: self.attempts.len(),
            leaving: self.leaving,
            releases: self.releases.len(),
            holds: self.holds.len(),
            owners: self.named.len(),
            local_queues: self.local_queues.len(),
            parked: self.parked.len(),
            unconfirmed: self.unconfirmed.len(),
            rounds: self.rounds.len(),
            due: self.timers.len().saturating_add(self.due.len()),
            settling: self.settling.len(),
            busy_connections: self.connections.values().filter(|connection| !connection.is_idle()).count(),
            sessions: self.nodes.values().filter(|node| node.session.is_some()).count(),
        }
    }

    /// The remaining time of each timer.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<Duration> {
        let due = self.timers.iter().map(|it| it.0).chain(self.due.iter().map(|it| it.0));
        due.map(|at| at.saturating_duration_since(now)).collect()
    }

    /// Whether a connection is kept only for late replies.
    #[must_use]
    pub fn is_retired(&self, connection: ConnectionId) -> bool {
        self.connections.get(&connection).is_some_and(Connection::is_retired)
    }
}
