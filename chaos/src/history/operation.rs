//! What clients ask for, and what they are told.

use super::{Moment, Record};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub at: Moment,
    /// A client does one thing after the other, but for calls of which it has lost the answer.
    pub client: String,
    /// Grows with each call of a client.
    pub number: u64,
    pub lock: String,
    /// A new name for each attempt to get into a lock from outside, so that whoever is seen in a lock or before it is
    /// known to be there because of that attempt. Re-entry, renewals and releases of the attempt bear the same name.
    pub holder: String,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Acquire {
        side: Side,
        lease_ms: u64,
        /// Nought is for ever, as on the wire.
        wait_ms: Option<u64>,
        fenced: bool,
        /// As Redisson asks, by a script: it knows of no queue.
        by_script: bool,
        /// How many replicas have to confirm it before it counts.
        replicas: u32,
        /// By a ticket of this session, if it has to wait.
        session: Option<String>,
    },
    /// Takes the ticket of this wait back.
    Cancel {
        session: String,
    },
    /// By `rlock-client`: its own waits, renewals and repetitions are not seen; what it says is, as [`Record::Vouched`].
    Guard {
        side: Side,
        lease_ms: u64,
        fenced: bool,
        replicas: u32,
        majority: bool,
    },
    Renew {
        lease_ms: u64,
    },
    Release {
        side: Side,
        all: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    Plain,
    Read,
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Granted {
        token: Option<u64>,
    },
    /// Not granted, at once or after the wait: what is left of the lock's lease, -1 without an end.
    Refused {
        left_ms: i64,
    },
    /// Nil: nothing was held. 0 and 1 as in the contract.
    Released(Option<i64>),
    Renewed(bool),
    /// Of the tickets that were to be taken back, whether this one was found; none if that is not known.
    Cancelled(Option<bool>),
    /// The server's words; of `rlock-client`, the error's. What was asked for has not happened.
    Failed(String),
    /// The connection broke, the time was up, the error says that nobody knows: it may have happened, or may happen yet.
    Unknown(String),
}

/// A call with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub call: Call,
    /// Without one, whoever called was killed or is still waiting at the end.
    pub answer: Option<(Moment, Answer)>,
    /// When it was said that it waits by a ticket.
    pub queued: Option<Moment>,
}

impl Operation {
    /// When it was granted, if it certainly was.
    pub fn granted(&self) -> Option<(Moment, Option<u64>)> {
        match &self.answer {
            Some((at, Answer::Granted { token })) => Some((*at, *token)),
            _ => None,
        }
    }

    /// When it was answered, unless the answer leaves open what has happened.
    pub fn known(&self) -> Option<(Moment, &Answer)> {
        self.answer
            .as_ref()
            .filter(|(_, answer)| !matches!(answer, Answer::Unknown(_)))
            .map(|(at, answer)| (*at, answer))
    }
}

/// The operations of a history, in order of their calls.
pub fn pair(records: &[Record]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    for record in records {
        match record {
            Record::Called(call) => {
                open.insert((&call.client, call.number), operations.len());
                operations.push(Operation { call: call.clone(), answer: None, queued: None });
            }
            Record::Answered { at, client, number, answer } => {
                if let Some(place) = open.remove(&(client.as_str(), *number)) {
                    operations[place].answer = Some((*at, answer.clone()));
                }
            }
            Record::Queued { at, client, number } => {
                if let Some(place) = open.get(&(client.as_str(), *number)) {
                    operations[*place].queued = Some(*at);
                }
            }
            _ => {}
        }
    }
    operations
}
