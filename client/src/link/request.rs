//! The RLOCK commands as they are sent, and their answers as types.

use super::fault::Fault;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Value};
use std::time::Duration;

/// One command on its way to a server.
pub(crate) struct Request {
    pub command: Cmd,
    /// How long the answer may take; without one, as long as it takes.
    pub limit: Option<Duration>,
}

/// Which kind of lock, and which side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Plain,
    Write,
    Read,
}

impl Side {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Write, Self::Read];

    fn acquire(self) -> &'static str {
        match self {
            Self::Plain => "RLOCK.ACQUIRE",
            Self::Write => "RLOCK.WACQUIRE",
            Self::Read => "RLOCK.RACQUIRE",
        }
    }

    fn word(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Write => Some("WRITE"),
            Self::Read => Some("READ"),
        }
    }
}

/// How long the server keeps a request that cannot be granted at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    For(Duration),
    ForEver,
}

/// The answer to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted { token: Option<u64> },
    Busy,
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// A hold was given back.
    Yes,
    /// There was none.
    Nothing,
}

/// How much is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    One,
    All,
}

pub(crate) fn acquire(side: Side, key: &[u8], holder: &[u8], lease: Duration, wait: Wait, fenced: bool) -> Cmd {
    let mut command = redis::cmd(side.acquire());
    command.arg(key).arg(holder).arg(milliseconds(lease));
    match wait {
        Wait::No => {}
        // 0 would be for ever.
        Wait::For(time) => _ = command.arg("WAIT").arg(milliseconds(time).max(1)),
        Wait::ForEver => _ = command.arg("WAIT").arg(0),
    }
    if fenced {
        command.arg("FENCED");
    }
    command
}

pub(crate) fn release(side: Side, key: &[u8], holder: &[u8], extent: Extent) -> Cmd {
    let mut command = redis::cmd("RLOCK.RELEASE");
    command.arg(key).arg(holder).arg(side.word());
    if extent == Extent::All {
        command.arg("ALL");
    }
    command
}

pub(crate) fn renew(key: &[u8], holder: &[u8], lease: Duration) -> Cmd {
    let mut command = redis::cmd("RLOCK.RENEW");
    command.arg(key).arg(holder).arg(milliseconds(lease));
    command
}

pub(crate) fn verdict(answer: Value) -> Result<Verdict, Fault> {
    match answer {
        Value::Nil => Ok(Verdict::Granted { token: None }),
        Value::Int(_) => Ok(Verdict::Busy),
        Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
            Ok([Value::Nil, token]) => match u64::from_redis_value(token) {
                Ok(token) => Ok(Verdict::Granted { token: Some(token) }),
                Err(error) => Err(Fault::Refused(error.into())),
            },
            Ok([Value::Int(_), _]) => Ok(Verdict::Busy),
            _ => Err(not_an_answer()),
        },
        _ => Err(not_an_answer()),
    }
}

pub(crate) fn released(answer: &Value) -> Result<Released, Fault> {
    match answer {
        Value::Nil => Ok(Released::Nothing),
        Value::Int(_) => Ok(Released::Yes),
        _ => Err(not_an_answer()),
    }
}

/// The answer to a renewal: whether the lock is held.
pub(crate) fn renewed(answer: &Value) -> Result<bool, Fault> {
    match answer {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        _ => Err(not_an_answer()),
    }
}

/// Something between here and the server answers in its own way.
pub(crate) fn not_an_answer() -> Fault {
    Fault::Refused(RedisError::from((ErrorKind::UnexpectedReturnType, "the answer is not one of an RLOCK command")))
}

/// As the server counts. What is too long for it, it refuses with its own words.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
