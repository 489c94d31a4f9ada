//! The RLOCK commands as they are sent, and their answers as types.

use super::fault::Fault;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Value};
use std::time::Duration;
use tokio::time::Instant;

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

/// A wait in the server, for a request that cannot be granted at once.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'a> {
    pub session: &'a str,
    pub ticket: u64,
    /// Without one, for ever.
    pub time: Option<Duration>,
}

/// The answer to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted {
        token: Option<u64>,
        /// Not known of what is over, or of what an older module tells.
        lease: Option<Leased>,
    },
    Busy,
    /// An event of its session will tell.
    Waits,
}

/// A lease that lasts at least for so long after that time, which was read before the server was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leased {
    pub after: Instant,
    pub length: Duration,
}

/// What became of a ticket.
pub(crate) struct Event {
    pub seq: u64,
    pub ticket: u64,
    pub outcome: Result<Verdict, Fault>,
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

pub(crate) fn acquire(side: Side, key: &[u8], holder: &[u8], lease: Duration, fenced: bool, wait: Option<Wait>) -> Cmd {
    let mut command = redis::cmd(side.acquire());
    command.arg(key).arg(holder).arg(milliseconds(lease));
    if let Some(Wait { session, ticket, time }) = wait {
        // 0 is for ever.
        let time = time.map_or(0, |time| milliseconds(time).max(1));
        command.arg("WAIT").arg(time).arg("SESSION").arg(session).arg(ticket);
    }
    if fenced {
        command.arg("FENCED");
    }
    command
}

/// A call for events. One that waits does so for as long as the server lets it.
pub(crate) fn events(session: &str, acknowledged: u64, waits: bool, ttl: Duration) -> Cmd {
    let mut command = redis::cmd("RLOCK.EVENTS");
    command.arg(session);
    if acknowledged > 0 {
        command.arg("ACK").arg(acknowledged);
    }
    if waits {
        command.arg("WAIT").arg(0);
    }
    command.arg("TTL").arg(milliseconds(ttl));
    command
}

/// Takes tickets back; the answer is how many were found. Without any, the session ends.
pub(crate) fn cancel(session: &str, tickets: &[u64]) -> Cmd {
    let mut command = redis::cmd("RLOCK.CANCEL");
    command.arg(session).arg(tickets);
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

/// `lease`: what it begins, if it is granted.
pub(crate) fn verdict(answer: Value, fenced: bool, lease: Leased) -> Result<Verdict, Fault> {
    match answer {
        Value::Nil if !fenced => Ok(Verdict::Granted { token: None, lease: Some(lease) }),
        Value::Int(_) => Ok(Verdict::Busy),
        Value::SimpleString(word) if word == "WAITING" => Ok(Verdict::Waits),
        Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
            Ok([Value::Nil, token]) => granted(token, Some(lease)),
            Ok([Value::Int(_), _]) => Ok(Verdict::Busy),
            _ => Err(not_an_answer()),
        },
        _ => Err(not_an_answer()),
    }
}

/// In the order in which they happened. They answer a call before which the clock was read as `asked_at`.
pub(crate) fn told(answer: Value, asked_at: Instant) -> Result<Vec<Event>, Fault> {
    let Value::Array(events) = answer else { return Err(not_an_answer()) };
    events.into_iter().map(|told| event(told, asked_at)).collect()
}

/// `[seq, ticket, outcome, value]`, and of a grant when its lease ends: so long after the server began this call.
fn event(event: Value, asked_at: Instant) -> Result<Event, Fault> {
    let mut parts = if let Value::Array(parts) = event { parts } else { Vec::new() };
    let ends_in = parts.drain(parts.len().min(4)..).next().and_then(|ends_in| u64::from_redis_value(ends_in).ok());
    let lease = ends_in.map(|ms| Leased { after: asked_at, length: Duration::from_millis(ms) });
    let Ok([seq, ticket, outcome, value]) = <[Value; 4]>::try_from(parts) else { return Err(not_an_answer()) };
    let (seq, ticket) = (number(seq)?, number(ticket)?);
    let outcome = match text(&outcome) {
        Some("granted") if value == Value::Nil => Ok(Verdict::Granted { token: None, lease }),
        Some("granted") => granted(value, lease),
        Some("timeout") => Ok(Verdict::Busy),
        Some("error") => Err(error(text(&value).unwrap_or_default())),
        _ => Err(not_an_answer()),
    };
    Ok(Event { seq, ticket, outcome })
}

fn granted(token: Value, lease: Option<Leased>) -> Result<Verdict, Fault> {
    Ok(Verdict::Granted { token: Some(number(token)?), lease })
}

fn number(value: Value) -> Result<u64, Fault> {
    u64::from_redis_value(value).map_err(|error| Fault::Refused(error.into()))
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// A line that is an error's where it is an answer of its own.
pub(super) fn error(line: &str) -> Fault {
    let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
    answer.and_then(Value::extract_error).map_or_else(Fault::of_request, |_| not_an_answer())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_lasts_for_as_long_as_is_told_from_when_its_poll_was_sent() {
        let (asked_at, granted) = (Instant::now(), Value::BulkString(b"granted".to_vec()));
        let parts = [Value::Int(1), Value::Int(7), granted, Value::Int(3)];
        for (ends_in, length) in
            [(vec![], None), (vec![Value::Int(0)], Some(0)), (vec![Value::Int(2_750)], Some(2_750))]
        {
            let event = Value::Array([&parts[..], &ends_in].concat());
            let told = told(Value::Array(vec![event]), asked_at).unwrap();
            let lease = length.map(|ms| Leased { after: asked_at, length: Duration::from_millis(ms) });
            assert_eq!(told[0].outcome.clone().unwrap(), Verdict::Granted { token: Some(3), lease });
        }
    }
}
