//! What an observer saw of a lock, and what was done to servers, connections, processes and keys.

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
    /// As PTTL says it: -1 without an end, -2 no key.
    pub ttl_ms: i64,
    pub holders: Vec<Holding>,
    /// In their order. All of them, or the first of so many that the rest was not asked for.
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
    /// A hold beside others whose own lease has ended is no hold any more, though it may be listed until the lock is free.
    pub fn is_live(&self) -> bool {
        self.side.is_exclusive() || self.ttl_ms.is_none_or(|left| left > 0)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub holder: String,
    pub side: Side,
    /// Of permits, how many may be out at once; else nought.
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

/// What tells one wait from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitsBy {
    /// A connection of its own, which is blocked.
    Client(i64),
    /// A ticket of a session, which was polled last on this connection, if that is still open. One that is not attended is
    /// passed over.
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

/// What was done, and which promises it ends.
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

/// What a replica knew when it became the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promotion {
    /// It was no master yet.
    pub from: Moment,
    /// It was the master, and had said what it knew.
    pub until: Moment,
    pub server: String,
    /// The kind of failover.
    pub by: String,
    /// The locks that it was asked for, each with its holders.
    pub knew: BTreeMap<String, Vec<String>>,
}

/// Whose holds and waits are no longer certain because of it. A hold that was certain is so until the trouble began; one
/// that was granted or renewed by a call after its end is certain again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Nothing that was promised ends.
    Nobody,
    /// The holds of these locks, removed or changed by somebody's plain command. None named: all locks.
    /// Their fencing counters and stored answers may be gone as well.
    Locks { locks: Vec<String>, takes_counters: bool, takes_answers: bool },
    /// The answer that is stored under this lock was removed.
    StoredAnswer { lock: String },
    /// A server without what makes it durable forgot what it knew, or one of its replicas took over: whatever was not
    /// copied is gone. What comes of it is counted under this name.
    /// `is_covered`: the servers are set up so that nobody gets what somebody else may hold still, forgotten or not.
    Failover {
        server: String,
        #[serde(default)]
        is_covered: bool,
    },
    /// Another server may go by this one's leases, and its clock is another one: they end sooner or later by that.
    ClocksApart { server: String },
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
