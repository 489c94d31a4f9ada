//! What was done to servers, connections, processes and keys, and which promises it ends.

use super::Moment;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// It had no effect before this.
    pub began: Moment,
    /// It has no effect that is new after this.
    pub ended: Moment,
    /// In words, for the story: "kill -9 of server a, which is started again on what it left".
    pub what: String,
    pub reach: Reach,
}

/// Whose holds and waits are no longer certain because of it. A hold that was certain is so until the trouble began; one
/// that was granted or renewed by a call after its end is certain again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Nothing that was promised ends.
    Nobody,
    /// The holds of these locks, removed or changed by somebody's plain command. None named: all locks.
    Locks { locks: Vec<String>, takes_counters: bool },
    /// A server without what makes it durable forgot what it knew, or one of its replicas took over: whatever was not
    /// copied is gone. What comes of it is counted under this name.
    Failover { server: String },
    /// A server was started anew and has all its keys. But nobody waits there any more, and no session is open.
    Restart { server: String },
    /// The server's clock was moved by so much: leases end sooner or later by that.
    ClockStep { server: String, by_ms: i64 },
    /// Clients or their connections stand still, or are gone: what they are told may not reach them.
    Clients,
    /// Some connections that were there when it began bring clients no answers any more. What clients send arrives, also
    /// that they have gone; and whoever connects anew is answered.
    Answers,
    /// This wait was ended by somebody: CLIENT KILL or UNBLOCK that was answered with 1.
    Wait { client_id: i64 },
    /// The server may not write: paused, memory full, replicas missing, no master. Waiters stay where they are.
    NoWrites { server: String },
}
