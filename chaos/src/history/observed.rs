//! What an observer saw of a lock, and the faults of servers, connections, processes and keys.

use super::{Moment, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an observer saw of a lock: the answer to one RLOCK.INSPECT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub asked: Moment,
    pub answered: Moment,
    /// The server's name in the run.
    pub server: String,
    pub lock: String,
    /// As PTTL replies: -1 without an end, -2 no key.
    pub ttl_ms: i64,
    pub holders: Vec<Holding>,
    /// In their order: all of them, or the first `COUNT` of the observer.
    pub waiters: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    pub holder: String,
    pub side: Side,
    pub count: i64,
    pub ttl_ms: Option<i64>,
}

impl Holding {
    /// A hold ends with its own lease, though it may be listed until the lock is free.
    pub fn is_live(&self) -> bool {
        self.side.is_exclusive() || self.ttl_ms.is_none_or(|left| left > 0)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub holder: String,
    pub side: Side,
    /// How many permits may be out at once; 0 for other sides.
    pub limit: u32,
    /// For how many locks it waits.
    pub locks: u32,
    pub by: WaitsBy,
    pub waited_ms: i64,
}

impl Waiting {
    pub fn is_for_several(&self) -> bool {
        self.locks > 1
    }
}

/// What distinguishes two waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitsBy {
    /// A blocked client.
    Client(i64),
    /// A ticket, and the connection on which its session was polled last, if that is still open. An unattended ticket is
    /// skipped.
    Ticket { name: String, connection: Option<i64>, is_attended: bool },
}

impl WaitsBy {
    pub fn is_attended(&self) -> bool {
        !matches!(self, Self::Ticket { is_attended: false, .. })
    }

    pub fn is_ticket(&self) -> bool {
        matches!(self, Self::Ticket { .. })
    }

    /// The connection that is blocked, if there is one.
    pub fn client(&self) -> Option<i64> {
        let Self::Client(id) = self else { return None };
        Some(*id)
    }
}

/// A fault, and which promises it suspends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// Before this it had no effect.
    pub began: Moment,
    /// After this it has no new effect.
    pub ended: Moment,
    /// In words, for the excerpt: "kill -9 of server a, which is started again on what it left".
    pub what: String,
    pub reach: Reach,
}

/// What a replica knew when it became the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promotion {
    /// The last moment before it became the master.
    pub from: Moment,
    /// The moment when it was the master and had reported its locks.
    pub until: Moment,
    pub server: String,
    /// The kind of failover.
    pub by: String,
    /// The locks about which it was asked, each with its holders.
    pub knew: BTreeMap<String, Vec<String>>,
}

/// Which holds and waits are no longer certain because of a trouble. A hold is certain until the trouble began. A hold
/// that was granted or renewed by a call after the trouble is certain again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// No promise is suspended.
    Nobody,
    /// The holds of these locks were removed or changed by a plain command. None named: all locks. Their fencing
    /// counters and stored answers may be gone as well.
    Locks { locks: Vec<String>, takes_counters: bool, takes_answers: bool },
    /// The answer that is stored under this lock was removed.
    StoredAnswer { lock: String },
    /// A server without persistence forgot what it knew, or one of its replicas took over: whatever was not copied is
    /// gone. Its consequences count as those of this failover. `is_covered`: the servers are set up so that no client gets
    /// what another may still hold, forgotten or not.
    Failover {
        server: String,
        #[serde(default)]
        is_covered: bool,
    },
    /// Another server may apply its own clock to this one's leases: they end sooner or later by the difference.
    ClocksApart { server: String },
    /// A server restarted with all its keys, but without waiters and sessions.
    Restart { server: String },
    /// The server's clock was set by this much: leases end sooner or later by the same.
    ClockStep { server: String, by_ms: i64 },
    /// Clients or their connections are stalled, or gone: replies and events may not reach them.
    Clients,
    /// Some connections that were open when it began deliver no answers any more. What clients send arrives, as does
    /// their disconnection; and new connections are answered.
    Answers,
    /// A fault ended this wait: CLIENT KILL or UNBLOCK that was answered with 1.
    Wait { client_id: i64 },
    /// The server may not write: paused, memory full, replicas missing, no master. Waiters stay where they are.
    NoWrites { server: String },
}
