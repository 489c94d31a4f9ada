//! What a command says to its client, in the one wording of each outcome.

use super::writer::Writer;
use crate::lock::{Outcome, Refusal};
use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use std::ffi::CStr;

/// What a command replies, if it is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No reply now: the client waits, and gets its reply later.
    Later,
    Nil,
    Number(i64),
    /// The word of a state.
    Word(&'static CStr),
    /// The command has written its reply itself, since it is longer than these.
    Written,
    /// An array of two.
    Pair(Option<i64>, Option<i64>),
}

impl Reply {
    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// A whole error reply, its code first. Always a constant, so that no input can shape one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorLine(pub &'static CStr);

impl From<Refusal> for ErrorLine {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.wire())
    }
}

/// The reply to a client whose acquire came to this outcome.
///
/// # Errors
/// The error reply, for an outcome that is one.
pub fn of_acquire(outcome: Outcome, fenced: bool) -> Result<Reply, ErrorLine> {
    match outcome {
        Outcome::Granted { token } if fenced => Ok(Reply::Pair(None, token)),
        Outcome::Granted { .. } => Ok(Reply::Nil),
        Outcome::Busy { left_ms } if fenced => Ok(Reply::Pair(Some(left_ms), None)),
        Outcome::Busy { left_ms } => Ok(Reply::Number(left_ms)),
        Outcome::Refused(refusal) => Err(refusal.into()),
        Outcome::SlotMoved => Err(SLOT_MOVED),
        Outcome::NowReplica => Err(NOW_REPLICA),
    }
}

/// Writes what became of a session's ticket: a word, and a value.
pub(in crate::server) fn write_event(writer: Writer<'_>, outcome: Outcome) {
    match outcome {
        Outcome::Granted { token } => _ = writer.bytes(b"granted").number_or_nil(token),
        Outcome::Busy { left_ms } => _ = writer.bytes(b"timeout").number(left_ms),
        Outcome::Refused(_) | Outcome::SlotMoved | Outcome::NowReplica => {
            let line = of_acquire(outcome, false).err().map_or(c"", |line| line.0);
            writer.bytes(b"error").bytes(line.to_bytes());
        }
    }
}

/// Replies to the client of this call.
pub fn send(context: &Context, reply: Result<Reply, ErrorLine>) {
    let writer = Writer::new(context);
    match reply {
        Ok(Reply::Later | Reply::Written) => {}
        Ok(Reply::Nil) => _ = writer.nil(),
        Ok(Reply::Number(number)) => _ = writer.number(number),
        // SAFETY: the context is alive; the word is copied.
        Ok(Reply::Word(word)) => unsafe {
            api!(RedisModule_ReplyWithSimpleString(context.as_ptr(), word.as_ptr()));
        },
        Ok(Reply::Pair(first, second)) => _ = writer.array(2).number_or_nil(first).number_or_nil(second),
        // SAFETY: the context is alive; the line is copied.
        Err(line) => unsafe {
            api!(RedisModule_ReplyWithError(context.as_ptr(), line.0.as_ptr()));
        },
    }
}

const SLOT_MOVED: ErrorLine = ErrorLine(c"TRYAGAIN the slot of this lock is served by another node now");

const NOW_REPLICA: ErrorLine =
    ErrorLine(c"UNBLOCKED this server has become a replica: ask the new master for the lock");
