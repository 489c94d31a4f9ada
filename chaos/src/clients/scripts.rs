//! Redisson's way: scripts by EVAL, which have no queue, no tokens, and no release of all holds at once.
//!
//! Readers are not renewed: Redisson's script for that shortens the lease of all other readers to this one's, which
//! would end a hold on which its holder relies.

use super::speech::Hold;
use super::wire::Command;
use crate::history::Side;
use rlock_testing::scripts;

/// The unlock messages: of a reader or a plain lock's holder, and of a writer.
const UNLOCKED: &str = "0";
const WRITER_LEFT: &str = "1";

/// Redisson's permits are other keys.
const NO_PERMITS: &str = "no script is for permits";

pub fn acquire(hold: &Hold) -> Command {
    let Hold { lock, holder, side, lease_ms, .. } = hold;
    let lease = lease_ms.to_string();
    match side {
        Side::Plain => eval(scripts::ACQUIRE, &[lock], &[&lease, holder]),
        Side::Read => eval(scripts::READ_ACQUIRE, &[lock, &reads(hold)], &[&lease, holder, &write_side(hold)]),
        Side::Write => eval(scripts::WRITE_ACQUIRE, &[lock], &[&lease, &write_side(hold)]),
        Side::Permit => unreachable!("{NO_PERMITS}"),
    }
}

/// None: the renewal would shorten other holds.
pub fn renew(hold: &Hold) -> Option<Command> {
    let lease = hold.lease_ms.to_string();
    match hold.side {
        Side::Plain => Some(eval(scripts::RENEW, &[&hold.lock], &[&lease, &hold.holder])),
        Side::Write => Some(eval(scripts::RENEW, &[&hold.lock], &[&lease, &write_side(hold)])),
        Side::Read => None,
        Side::Permit => unreachable!("{NO_PERMITS}"),
    }
}

/// The release of a writer replies 1 even if nothing was held.
pub fn release(hold: &Hold) -> Command {
    let Hold { lock, holder, side, lease_ms, .. } = hold;
    let (lease, channel) = (lease_ms.to_string(), channel(hold));
    match side {
        Side::Plain => eval(scripts::RELEASE, &[lock, &channel], &[UNLOCKED, &lease, holder]),
        Side::Read => {
            let keys = [lock, &channel, &reads(hold), &in_braces(lock)];
            eval(scripts::READ_RELEASE, &keys.map(String::as_str), &[UNLOCKED, holder])
        }
        Side::Write => eval(scripts::WRITE_RELEASE, &[lock, &channel], &[WRITER_LEFT, &lease, &write_side(hold)]),
        Side::Permit => unreachable!("{NO_PERMITS}"),
    }
}

fn eval(script: &str, keys: &[&str], arguments: &[&str]) -> Command {
    let count = keys.len().to_string();
    [&["EVAL", script, &count][..], keys, arguments].concat().into_iter().map(str::to_owned).collect()
}

/// Derived keys are in the same slot of a cluster.
fn in_braces(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

fn channel(hold: &Hold) -> String {
    let name = in_braces(&hold.lock);
    match hold.side {
        Side::Plain => format!("redisson_lock__channel:{name}"),
        Side::Read | Side::Write => format!("redisson_rwlock:{name}"),
        Side::Permit => unreachable!("{NO_PERMITS}"),
    }
}

fn reads(hold: &Hold) -> String {
    format!("{}:{}:rwlock_timeout", in_braces(&hold.lock), hold.holder)
}

fn write_side(hold: &Hold) -> String {
    format!("{}:write", hold.holder)
}
