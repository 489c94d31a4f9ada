//! The RLOCK commands as they are sent, and their replies as types.

use super::attempt::Aim;
use super::fault::Fault;
use super::release::Answering;
use super::resp::{self, Reply, write};
use super::terms::{Side, Terms};
use rlock_core::lock::{self, Lease, Limit};
use rlock_core::words::{self, Command, Request};
use std::time::{Duration, Instant};

/// The reply to a request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted {
        /// One for each requested lock, if they are fenced.
        tokens: Vec<u64>,
        /// None if the lease has ended already, or if the module is too old to send it.
        lease: Option<Leased>,
    },
    Busy,
    /// An event of its session will follow.
    Waits,
    /// There is an answer: this one, or one that has to be requested.
    Answered(Option<Vec<u8>>),
}

/// A lease that lasts at least `length` from `after`, a time that was read before the request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    pub after: Instant,
    pub length: Duration,
}

/// An event of a ticket.
pub struct Event {
    pub seq: u64,
    pub ticket: u64,
    pub outcome: Result<Verdict, Fault>,
}

/// The outcome of a cancelled ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The server has no such ticket.
    Unknown,
    /// It does not wait any more, and was not granted the lock.
    Waited,
    /// It was granted the lock, which its holder has to release.
    Granted,
}

/// How much to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    One,
    All,
}

/// A wait in the server, for a request that cannot be granted at once: session, ticket and duration.
pub struct Wait<'a>(pub &'a str, pub u64, pub Option<Duration>);

/// For one lock or permit, for several locks at once, or for an answer or the lock to compute it under.
pub fn acquire(aim: Aim, terms: &Terms, keys: &[&[u8]], holder: &[u8], lease: Duration, wait: Option<Wait>) -> Vec<u8> {
    let command = match (terms.side, keys.len()) {
        _ if aim == Aim::Answer => &words::ONCE,
        (Side::Plain, 2..) => &words::MACQUIRE,
        (Side::Plain, _) if terms.permits.is_some() => &words::PACQUIRE,
        (Side::Plain, _) => &words::ACQUIRE,
        (Side::Write, _) => &words::WACQUIRE,
        (Side::Read, _) => &words::RACQUIRE,
    };
    let mut request = Request {
        keys,
        holder: Some(holder),
        lease: Lease::from_ms(milliseconds(lease)),
        limit: terms.permits.and_then(|limit| Limit::new(limit.into())),
        fenced: terms.fenced,
        ..Request::default()
    };
    let Some(Wait(session, ticket, time)) = wait else { return written(command, &request) };
    let ticket = ticket.to_string();
    // 0 means no limit.
    request.wait_ms = Some(time.map_or(0, |time| milliseconds(time).max(1)));
    request.max = terms.max.and_then(|max| max.try_into().ok());
    request.session = Some(session.as_bytes());
    written(command, &Request { tickets: &[ticket.as_bytes()], ..request })
}

/// Requests events. `waits`: the server may keep the request until there are some, for as long as it allows.
pub fn events(session: &str, acknowledged: u64, waits: bool, ttl: Duration) -> Vec<u8> {
    let request = Request {
        session: Some(session.as_bytes()),
        seq: (acknowledged > 0).then_some(acknowledged),
        wait_ms: waits.then_some(0),
        ttl_ms: Some(milliseconds(ttl)),
        ..Request::default()
    };
    written(&words::EVENTS, &request)
}

/// Cancels a ticket.
pub fn cancel(session: &str, ticket: u64) -> Vec<u8> {
    let ticket = ticket.to_string();
    let tickets = &[ticket.as_bytes()][..];
    written(&words::CANCEL, &Request { session: Some(session.as_bytes()), tickets, ..Request::default() })
}

pub fn release(side: Side, (key, holder): (&[u8], &[u8]), extent: Extent) -> Vec<u8> {
    let side = match side {
        Side::Plain => None,
        Side::Write => Some(lock::Side::Write),
        Side::Read => Some(lock::Side::Read),
    };
    let all = extent == Extent::All;
    written(&words::RELEASE, &Request { keys: &[key], holder: Some(holder), side, all, ..Request::default() })
}

/// Releases all, and stores the answer for the time it has to be kept.
pub fn answer((key, holder): (&[u8], &[u8]), Answering { value, keep }: &Answering) -> Vec<u8> {
    let (value, keep) = (Some(&**value), Lease::from_ms(milliseconds(*keep)));
    written(&words::ANSWER, &Request { keys: &[key], holder: Some(holder), value, keep, ..Request::default() })
}

/// Removes the answer.
pub fn forget(key: &[u8]) -> Vec<u8> {
    lock::names::answer(key, |answer| encoded(&[b"DEL", answer]))
}

pub fn renew((key, holder): (&[u8], &[u8]), lease: Duration) -> Vec<u8> {
    let lease = Lease::from_ms(milliseconds(lease));
    written(&words::RENEW, &Request { keys: &[key], holder: Some(holder), lease, ..Request::default() })
}

/// Most requests are shorter.
const LENGTH: usize = 192;

/// A command of rlock, from its table.
fn written(command: &Command, request: &Request<'_, &[u8]>) -> Vec<u8> {
    let (mut count, mut words) = (0, Vec::with_capacity(LENGTH));
    request.write(command, |word| {
        count += 1;
        resp::word(&mut words, word);
    });
    let mut bytes = Vec::with_capacity(words.len() + 5);
    resp::head(&mut bytes, b'*', count);
    bytes.append(&mut words);
    bytes
}

/// Asks how many replicas have everything that was sent before on this connection. A limit of 0 would mean no limit.
pub fn wait_for_replicas(wanted: usize, limit: Duration) -> Vec<u8> {
    let limit = limit.clamp(Duration::from_millis(1), Duration::from_millis(i64::MAX.unsigned_abs()));
    encoded(&[b"WAIT", wanted.to_string().as_bytes(), milliseconds(limit).to_string().as_bytes()])
}

pub fn encoded(command: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(command.iter().map(|argument| argument.len() + 10).sum());
    write(&mut bytes, command);
    bytes
}

/// `lease`: the one that a grant starts.
pub fn verdict(answer: Reply, fenced: bool, lease: Leased) -> Result<Verdict, Fault> {
    match answer {
        Reply::Nil if !fenced => Ok(Verdict::Granted { tokens: Vec::new(), lease: Some(lease) }),
        Reply::Int(_) => Ok(Verdict::Busy),
        Reply::Word(word) if word == b"WAITING" => Ok(Verdict::Waits),
        Reply::List(pair) => match &pair[..] {
            [Reply::Nil, tokens] => granted(tokens, Some(lease)),
            [Reply::Int(_), _] => Ok(Verdict::Busy),
            _ => Err(Fault::not_an_answer()),
        },
        _ => Err(Fault::not_an_answer()),
    }
}

/// The same, if there may be an answer already.
pub fn verdict_or_answer(answer: Reply, lease: Leased) -> Result<Verdict, Fault> {
    match answer {
        Reply::Text(value) => Ok(Verdict::Answered(Some(value))),
        other => verdict(other, false, lease),
    }
}

/// The events of a reply, in order. `asked_at`: the clock before the request was sent.
pub fn read_events(answer: Reply, asked_at: Instant) -> Result<Vec<Event>, Fault> {
    let Reply::List(events) = answer else { return Err(Fault::not_an_answer()) };
    events.iter().map(|reply| event(reply, asked_at).ok_or_else(Fault::not_an_answer)).collect()
}

/// `[seq, ticket, outcome, value]`, and for a grant the time from the start of this request to the end of its lease.
fn event(event: &Reply, asked_at: Instant) -> Option<Event> {
    let Reply::List(parts) = event else { return None };
    let [seq, ticket, outcome, value, more @ ..] = &parts[..] else { return None };
    let ends_in = more.first().and_then(Reply::number);
    let lease = ends_in.map(|ms| Leased { after: asked_at, length: Duration::from_millis(ms) });
    let outcome = match (outcome.text()?, value) {
        ("granted", Reply::Nil) => Ok(Verdict::Granted { tokens: Vec::new(), lease }),
        ("granted", tokens) => granted(tokens, lease),
        ("timeout", _) => Ok(Verdict::Busy),
        ("answered", _) => Ok(Verdict::Answered(None)),
        ("error", line) => Err(Fault::of_answer(line.text()?.to_owned())),
        _ => return None,
    };
    Some(Event { seq: seq.number()?, ticket: ticket.number()?, outcome })
}

/// A grant with the token of one lock, or the tokens of several.
fn granted(tokens: &Reply, lease: Option<Leased>) -> Result<Verdict, Fault> {
    let tokens = match tokens {
        Reply::List(tokens) => tokens.iter().map(Reply::number).collect(),
        token => token.number().map(|token| vec![token]),
    };
    Ok(Verdict::Granted { tokens: tokens.ok_or_else(Fault::not_an_answer)?, lease })
}

/// Whether a hold was released.
pub fn released(answer: &Reply) -> Result<bool, Fault> {
    match answer {
        Reply::Nil => Ok(false),
        Reply::Int(_) => Ok(true),
        _ => Err(Fault::not_an_answer()),
    }
}

/// The outcome of the one ticket that was sent with CANCEL.
pub fn cancelled(answer: &Reply) -> Result<Cancelled, Fault> {
    let Reply::List(tickets) = answer else { return Err(Fault::not_an_answer()) };
    match tickets[..] {
        [Reply::Int(0)] => Ok(Cancelled::Unknown),
        [Reply::Int(1)] => Ok(Cancelled::Waited),
        [Reply::Int(2)] => Ok(Cancelled::Granted),
        _ => Err(Fault::not_an_answer()),
    }
}

/// Whether the lock is held.
pub fn yes_or_no(answer: &Reply) -> Result<bool, Fault> {
    match answer {
        Reply::Int(1) => Ok(true),
        Reply::Int(0) => Ok(false),
        _ => Err(Fault::not_an_answer()),
    }
}

/// In the server's unit. If it is too long, the server refuses it in its own words.
fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
