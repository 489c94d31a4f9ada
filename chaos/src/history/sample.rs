//! What an observer saw of a lock: the answer to one RLOCK.INSPECT.

use super::{Moment, Side};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

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
    /// A read hold whose own lease has ended is no hold any more, though it is listed until the lock is free.
    pub fn is_live(&self) -> bool {
        self.side != Side::Read || self.ttl_ms.is_none_or(|left| left > 0)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub holder: String,
    pub side: Side,
    pub by: WaitsBy,
    pub waited_ms: i64,
}

/// What tells one wait from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitsBy {
    /// A connection of its own, which is blocked.
    Client(i64),
    /// A ticket of a session. One that is not attended is passed over.
    Ticket { name: String, is_attended: bool },
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
        match self {
            Self::Client(id) => Some(*id),
            Self::Ticket { .. } => None,
        }
    }
}

impl Display for WaitsBy {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(id) => write!(out, "client {id}"),
            Self::Ticket { is_attended: true, .. } => out.write_str("by ticket"),
            Self::Ticket { is_attended: false, .. } => out.write_str("by ticket, unattended"),
        }
    }
}
