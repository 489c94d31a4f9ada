//! The requests and answers of clients.

use super::{Moment, Record};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub at: Moment,
    /// A client makes one call after the other, except that it does not wait for lost answers.
    pub client: String,
    /// Grows with each call of a client.
    pub number: u64,
    pub lock: String,
    /// A new name for each attempt to acquire a lock, so that one attempt explains each holder or waiter in a sample.
    /// Re-entries, renewals and releases of its hold have the same name.
    pub holder: String,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// By a command, or by a script.
    Acquire {
        side: Side,
        /// How many permits may be out at once; 0 for other sides.
        limit: u32,
        /// The other locks that it wants together with this one, all or none: each has its own call.
        beside: Vec<String>,
        lease_ms: u64,
        /// As in the protocol, 0 has no limit.
        wait_ms: Option<u64>,
        fenced: bool,
        by: By,
    },
    /// By `rlock-client`. Its waits, renewals and repetitions are not recorded, only its reports, as [`Record::Vouched`].
    Guard { side: Side, limit: u32, lease_ms: u64, fenced: bool },
    /// Everything held under this name.
    Renew { lease_ms: u64 },
    /// Of one hold, or of all holds of that side.
    Release { side: Side, all: bool },
    /// A holder's answer, which ends all its holds. Each lead has its own value; a repeated ANSWER has the same.
    Answer { value: String, keep_ms: u64 },
}

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    Acquire,
    /// By ONCE, for a stored answer or the lock.
    Once,
    /// By Redisson's script, which has no queue.
    Script,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    Plain,
    Read,
    Write,
    Permit,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// With a token, if one was asked for.
    Granted { token: Option<u64> },
    /// Not granted, at once or after the wait: the remaining lease of the lock, -1 without an end.
    Refused { left_ms: i64 },
    /// Nil: nothing was held. 0 and 1 as in the contract.
    Released(Option<i64>),
    /// False: nothing was held.
    Renewed(bool),
    /// Of ONCE: the stored answer.
    Got { value: String },
    /// Of ONCE by ticket: the next ONCE returns the answer.
    Answered,
    /// Of ANSWER. False: this holder held nothing, and nothing was stored.
    Stored(bool),
    /// The words of the server's error, or of `rlock-client`'s. The request had no effect.
    Failed(String),
    /// The connection broke, the time was up, or the error leaves the outcome open: it may have happened, or may still
    /// happen.
    Unknown(String),
}

/// A call with everything that was recorded of it later.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub call: Call,
    /// Without one, the client was killed or is still waiting at the end.
    pub answer: Option<(Moment, Answer)>,
    /// When `rlock-client` reported, and until when the lock is held according to that report.
    pub vouched: Vec<(Moment, Moment)>,
    pub ended: Option<Moment>,
}

impl Operation {
    /// When the lock was granted, if it certainly was, and the token.
    pub fn granted(&self) -> Option<(Moment, Option<u64>)> {
        let Some((at, Answer::Granted { token })) = &self.answer else { return None };
        Some((*at, *token))
    }

    /// When it was answered, unless the answer leaves open what has happened.
    pub fn known(&self) -> Option<(Moment, &Answer)> {
        let known = self.answer.as_ref().filter(|(_, answer)| !matches!(answer, Answer::Unknown(_)));
        known.map(|(at, answer)| (*at, answer))
    }

    /// The holder of the call.
    pub fn holder(&self) -> &str {
        &self.call.holder
    }

    /// When it has certainly ended: never, if its outcome is unknown.
    pub fn done(&self) -> Moment {
        self.known().map_or(Moment(u64::MAX), |(at, _)| at)
    }

    pub fn known_answer(&self) -> Option<&Answer> {
        self.known().map(|(_, answer)| answer)
    }

    /// Whether the server answered with an error, and so did nothing.
    pub fn failed(&self) -> bool {
        matches!(self.known_answer(), Some(Answer::Failed(_)))
    }

    /// Whether it certainly had no effect.
    pub fn did_nothing(&self) -> bool {
        let nothing = |answer: &Answer| match answer {
            Answer::Refused { .. } | Answer::Got { .. } | Answer::Answered => true,
            Answer::Renewed(is_done) | Answer::Stored(is_done) => !is_done,
            _ => false,
        };
        self.failed() || self.known_answer().is_some_and(nothing)
    }

    /// The side that it asks for, whether by a command or by a guard.
    pub fn asks_for(&self) -> Option<Side> {
        match self.call.request {
            Request::Acquire { side, .. } | Request::Guard { side, .. } => Some(side),
            Request::Renew { .. } | Request::Release { .. } | Request::Answer { .. } => None,
        }
    }

    /// Whether it asked for several locks, all or none.
    pub fn is_of_several(&self) -> bool {
        matches!(&self.call.request, Request::Acquire { beside, .. } if !beside.is_empty())
    }

    pub fn is_guard(&self) -> bool {
        matches!(self.call.request, Request::Guard { .. })
    }

    pub fn is_by_script(&self) -> bool {
        matches!(self.call.request, Request::Acquire { by: By::Script, .. })
    }

    pub fn is_by_once(&self) -> bool {
        matches!(self.call.request, Request::Acquire { by: By::Once, .. })
    }

    pub fn is_renewal(&self) -> bool {
        matches!(self.call.request, Request::Renew { .. })
    }
}

impl Request {
    pub fn waits(&self) -> bool {
        matches!(self, Self::Acquire { wait_ms: Some(_), .. })
    }

    pub fn lease_ms(&self) -> Option<u64> {
        match self {
            Self::Acquire { lease_ms, .. } | Self::Guard { lease_ms, .. } | Self::Renew { lease_ms } => Some(*lease_ms),
            Self::Release { .. } | Self::Answer { .. } => None,
        }
    }
}

impl Side {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Read, Self::Write, Self::Permit];

    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Plain | Self::Write)
    }
}

/// The operations of a history, in order of their calls.
pub fn pair(records: &[Record]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut places: HashMap<(&str, u64), usize> = HashMap::new();
    for record in records {
        if let Record::Called(call) = record {
            places.insert((&call.client, call.number), operations.len());
            let (answer, vouched, ended) = Default::default();
            operations.push(Operation { call: call.clone(), answer, vouched, ended });
        }
        let Some(place) = record.of_call().and_then(|call| places.get(&call)) else { continue };
        let operation = &mut operations[*place];
        match record {
            Record::Answered { at, answer, .. } => operation.answer = Some((*at, answer.clone())),
            Record::Vouched { at, until, .. } => operation.vouched.push((*at, *until)),
            Record::Ended { at, .. } => operation.ended = operation.ended.or(Some(*at)),
            _ => {}
        }
    }
    operations
}

impl Record {
    /// The call that it is about: client and number.
    pub fn of_call(&self) -> Option<(&str, u64)> {
        match self {
            Self::Called(Call { client, number, .. })
            | Self::Answered { client, number, .. }
            | Self::Vouched { client, number, .. }
            | Self::Ended { client, number, .. } => Some((client, *number)),
            _ => None,
        }
    }
}
