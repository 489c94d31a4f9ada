//! The bare commands.

use super::speech::{Hold, Speech};
use super::wire::Command;
use crate::history::Side;

pub struct Commands;

impl Speech for Commands {
    fn is_native(&self) -> bool {
        true
    }

    fn acquire(&self, hold: &Hold, wait_ms: Option<u64>, fenced: bool) -> Command {
        let name = match hold.side {
            Side::Plain => "RLOCK.ACQUIRE",
            Side::Read => "RLOCK.RACQUIRE",
            Side::Write => "RLOCK.WACQUIRE",
        };
        let mut command = words(&[name, &hold.lock, &hold.holder, &hold.lease_ms.to_string()]);
        if let Some(wait_ms) = wait_ms {
            command.extend(words(&["WAIT", &wait_ms.to_string()]));
        }
        if fenced {
            command.extend(words(&["FENCED"]));
        }
        command
    }

    fn renew(&self, hold: &Hold) -> Option<Command> {
        Some(words(&["RLOCK.RENEW", &hold.lock, &hold.holder, &hold.lease_ms.to_string()]))
    }

    fn release(&self, hold: &Hold, all: bool) -> Command {
        let side: &[&str] = match hold.side {
            Side::Plain => &[],
            Side::Read => &["READ"],
            Side::Write => &["WRITE"],
        };
        let all: &[&str] = if all { &["ALL"] } else { &[] };
        words(&[&["RLOCK.RELEASE", &hold.lock, &hold.holder], side, all].concat())
    }
}

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| (*word).to_owned()).collect()
}
