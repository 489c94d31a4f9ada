//! What is said between a process and its session on a server: the polls, and what they tell of tickets.
//!
//! A ticket bears the name of the holder that waits by it, and a session has a new name each time it is opened after it
//! was lost. So whatever is told or seen of a ticket is known to belong to one wait.

use super::{Answer, Moment};
use serde::{Deserialize, Serialize};

/// A call about a session as a whole is about to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    pub at: Moment,
    pub client: String,
    pub session: String,
    /// Grows with each of a session.
    pub number: u64,
    /// Grows with each connection that the session is polled on.
    pub connection: u64,
    /// All events up to this are done with; nought says nothing.
    pub ack: u64,
    pub ttl_ms: u64,
    /// A CANCEL without tickets, which ends the session.
    pub ends: bool,
}

/// What a poll was answered with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// None when there were none.
    Events(Vec<Event>),
    /// The session has ended; it had so many tickets.
    Ended(i64),
    /// There is no such session.
    NoSession,
    /// Another error, by which nothing happened.
    Failed(String),
}

/// What became of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub seq: u64,
    pub ticket: String,
    pub outcome: Answer,
}
