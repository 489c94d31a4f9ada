//! What a command replies. Each outcome has one wording.

use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use rlock_core::lock::Outcome;
use rlock_core::words::Error;
use std::ffi::{CStr, CString, c_long};
use std::rc::Rc;

/// What a command replies, except for errors that have a fixed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No reply now: the client waits, and gets its reply later.
    Later,
    Nil,
    Number(i64),
    Bytes(Rc<[u8]>),
    /// A word that names a state.
    Word(&'static CStr),
    /// The command has already written its reply, which is longer than these.
    Written,
    /// An array of two.
    Pair(Option<i64>, Option<i64>),
    /// An array of two: nil, and an array of these.
    Tokens(Vec<i64>),
    /// An array of these.
    Numbers(Vec<i64>),
    /// The one error with a number in it: how many requests already wait.
    TurnedAway(usize),
}

impl Reply {
    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The reply to an acquire with this outcome.
///
/// # Errors
/// The error reply, if the outcome is an error.
pub fn of_acquire(outcome: Outcome, fenced: bool) -> Result<Reply, Error> {
    match outcome {
        Outcome::Granted { token } if fenced => Ok(Reply::Pair(None, token)),
        // An answer is replied as its bytes: see [`rlock_core::waiting::Answer::Value`].
        Outcome::Granted { .. } | Outcome::Answered => Ok(Reply::Nil),
        Outcome::Busy { left_ms } if fenced => Ok(Reply::Pair(Some(left_ms), None)),
        Outcome::Busy { left_ms } => Ok(Reply::Number(left_ms)),
        Outcome::Refused(refusal) => Err(refusal.into()),
        Outcome::SlotMoved => Err(Error::SlotMoved),
        Outcome::NowReplica => Err(Error::NowReplica),
        Outcome::Replaced => Err(Error::Replaced),
    }
}

/// The reply to a client that is granted several locks, with their fencing tokens, if it has asked for them.
pub fn of_several(tokens: Vec<i64>) -> Reply {
    if tokens.is_empty() { Reply::Nil } else { Reply::Tokens(tokens) }
}

/// Writes what became of a session's ticket: a word, and a value. A ticket for several locks may have tokens.
pub fn write_event(writer: Writer<'_>, outcome: Outcome, tokens: Option<&[i64]>) {
    match outcome {
        Outcome::Granted { .. } if tokens.is_some() => writer.bytes(b"granted").numbers(tokens.unwrap_or_default()),
        Outcome::Granted { token } => _ = writer.bytes(b"granted").or_nil(token, Writer::number),
        Outcome::Busy { left_ms } => _ = writer.bytes(b"timeout").number(left_ms),
        Outcome::Answered => _ = writer.bytes(b"answered").nil(),
        Outcome::Refused(_) | Outcome::SlotMoved | Outcome::NowReplica | Outcome::Replaced => {
            let line = of_acquire(outcome, false).err().map_or(c"", Error::line);
            writer.bytes(b"error").bytes(line.to_bytes());
        }
    }
}

/// Replies to the client of this call.
pub fn send(context: &Context, reply: Result<Reply, Error>) {
    let writer = Writer::new(context);
    match reply {
        Ok(Reply::Later | Reply::Written) => {}
        Ok(Reply::Nil) => _ = writer.nil(),
        Ok(Reply::Number(number)) => _ = writer.number(number),
        Ok(Reply::Bytes(bytes)) => _ = writer.bytes(&bytes),
        // SAFETY: the context is alive; the word is copied.
        Ok(Reply::Word(word)) => unsafe {
            api!(RedisModule_ReplyWithSimpleString(context.as_ptr(), word.as_ptr()));
        },
        Ok(Reply::Pair(first, second)) => {
            writer.array(2).or_nil(first, Writer::number).or_nil(second, Writer::number);
        }
        Ok(Reply::Tokens(tokens)) => writer.array(2).nil().numbers(&tokens),
        Ok(Reply::Numbers(numbers)) => writer.numbers(&numbers),
        Ok(Reply::TurnedAway(waiting)) => send_error(context, &turned_away(waiting)),
        Err(error) => send_error(context, error.line()),
    }
}

fn send_error(context: &Context, line: &CStr) {
    // SAFETY: the context is alive; the line is copied.
    unsafe { api!(RedisModule_ReplyWithError(context.as_ptr(), line.as_ptr())) };
}

fn turned_away(waiting: usize) -> CString {
    let line = format!("{}: {waiting}", Error::QueueTooLong.line().to_string_lossy());
    CString::new(line).unwrap_or_default()
}

/// Writes a reply of more than a few numbers, piece by piece. Maps are flat arrays to a client that speaks RESP2.
///
/// A map or an array begins with the number of its pieces, and exactly as many must follow: so nothing that can fail comes
/// in between.
#[derive(Clone, Copy)]
pub struct Writer<'a>(&'a Context);

impl<'a> Writer<'a> {
    /// For a command that then replies [`Reply::Written`].
    #[must_use]
    pub fn new(context: &'a Context) -> Self {
        Self(context)
    }

    /// This many names follow, each with its value after it.
    pub fn map(self, length: usize) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithMap(self.0.as_ptr(), as_long(length))) };
        self
    }

    /// This many values follow.
    pub fn array(self, length: usize) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithArray(self.0.as_ptr(), as_long(length))) };
        self
    }

    /// A name in a map, or one of a fixed set of words.
    pub fn word(self, word: &CStr) -> Self {
        self.bytes(word.to_bytes())
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        // SAFETY: the context is alive; the bytes are copied.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.0.as_ptr(), bytes.as_ptr().cast(), bytes.len())) };
        self
    }

    pub fn number(self, number: impl TryInto<i64>) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.0.as_ptr(), number.try_into().unwrap_or(i64::MAX))) };
        self
    }

    /// An array of these.
    pub fn numbers(self, numbers: &[i64]) {
        numbers.iter().fold(self.array(numbers.len()), |writer, number| writer.number(*number));
    }

    pub fn nil(self) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithNull(self.0.as_ptr())) };
        self
    }

    /// A value that may be absent.
    pub fn or_nil<T>(self, value: Option<T>, write: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => write(self, value),
            None => self.nil(),
        }
    }
}

fn as_long(length: usize) -> c_long {
    c_long::try_from(length).unwrap_or(c_long::MAX)
}
