//! The bare commands.

use super::speech::Hold;
use super::wire::Command;
use crate::history::{By, Side};

pub fn acquire(hold: &Hold, wait_ms: Option<u64>, fenced: bool) -> Command {
    let name = match hold.side {
        Side::Plain if hold.by == By::Once => "RLOCK.ONCE",
        Side::Plain => "RLOCK.ACQUIRE",
        Side::Read => "RLOCK.RACQUIRE",
        Side::Write => "RLOCK.WACQUIRE",
        Side::Permit => "RLOCK.PACQUIRE",
    };
    let mut command = if hold.is_of_several() {
        words(&["RLOCK.MACQUIRE", &hold.locks().count().to_string()])
    } else {
        words(&[name])
    };
    command.extend(hold.locks().cloned());
    command.extend(words(&[&hold.holder, &hold.lease_ms.to_string()]));
    if hold.side == Side::Permit {
        command.extend(words(&["LIMIT", &hold.limit.to_string()]));
    }
    if let Some(wait_ms) = wait_ms {
        command.extend(words(&["WAIT", &wait_ms.to_string()]));
    }
    if fenced {
        command.extend(words(&["FENCED"]));
    }
    command
}

pub fn renew(hold: &Hold) -> Command {
    words(&["RLOCK.RENEW", &hold.lock, &hold.holder, &hold.lease_ms.to_string()])
}

pub fn release(hold: &Hold, all: bool) -> Command {
    let side: &[&str] = match hold.side {
        Side::Plain | Side::Permit => &[],
        Side::Read => &["READ"],
        Side::Write => &["WRITE"],
    };
    let all: &[&str] = if all { &["ALL"] } else { &[] };
    words(&[&["RLOCK.RELEASE", &hold.lock, &hold.holder], side, all].concat())
}

pub fn answer(hold: &Hold, value: &str, keep_ms: u64) -> Command {
    words(&["RLOCK.ANSWER", &hold.lock, &hold.holder, value, "KEEP", &keep_ms.to_string()])
}

/// The last words of an acquire that waits by the only ticket of this session.
pub fn by_ticket(session: &str) -> Command {
    words(&["SESSION", session, "ticket"])
}

pub fn open_session(session: &str, ttl_ms: u64) -> Command {
    words(&["RLOCK.EVENTS", session, "TTL", &ttl_ms.to_string()])
}

pub fn next_event(session: &str) -> Command {
    words(&["RLOCK.EVENTS", session, "WAIT", "0"])
}

pub fn end_session(session: &str) -> Command {
    words(&["RLOCK.CANCEL", session])
}

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| (*word).to_owned()).collect()
}
