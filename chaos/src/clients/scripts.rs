//! Redisson's way: scripts by EVAL, which know of no queue, of no tokens, and of no release of all holds at once.
//!
//! Readers are not renewed: Redisson's script for that shortens the lease of all other readers to this one's, by which a
//! hold would end that its holder may count on.

use super::speech::{Hold, Speech};
use super::wire::Command;
use crate::history::Side;
use rlock_testing::scripts;

/// What unlock messages say: that a reader or a plain lock's holder has left, or a writer.
const UNLOCKED: &str = "0";
const WRITER_LEFT: &str = "1";

pub struct Scripts;

impl Speech for Scripts {
    fn is_native(&self) -> bool {
        false
    }

    fn acquire(&self, hold: &Hold, _: Option<u64>, _: bool) -> Command {
        let Hold { lock, holder, side, lease_ms } = hold;
        let lease = lease_ms.to_string();
        match side {
            Side::Plain => eval(scripts::ACQUIRE, &[lock], &[&lease, holder]),
            Side::Read => eval(scripts::READ_ACQUIRE, &[lock, &reads(hold)], &[&lease, holder, &write_side(hold)]),
            Side::Write => eval(scripts::WRITE_ACQUIRE, &[lock], &[&lease, &write_side(hold)]),
        }
    }

    fn renew(&self, hold: &Hold) -> Option<Command> {
        let lease = hold.lease_ms.to_string();
        match hold.side {
            Side::Plain => Some(eval(scripts::RENEW, &[&hold.lock], &[&lease, &hold.holder])),
            Side::Write => Some(eval(scripts::RENEW, &[&hold.lock], &[&lease, &write_side(hold)])),
            Side::Read => None,
        }
    }

    fn release(&self, hold: &Hold, _: bool) -> Command {
        let Hold { lock, holder, side, lease_ms } = hold;
        let (lease, channel) = (lease_ms.to_string(), channel(hold));
        match side {
            Side::Plain => eval(scripts::RELEASE, &[lock, &channel], &[UNLOCKED, &lease, holder]),
            Side::Read => {
                let keys = [lock, &channel, &reads(hold), &in_braces(lock)];
                eval(scripts::READ_RELEASE, &keys.map(String::as_str), &[UNLOCKED, holder])
            }
            Side::Write => eval(scripts::WRITE_RELEASE, &[lock, &channel], &[WRITER_LEFT, &lease, &write_side(hold)]),
        }
    }

    fn releases_what_is_gone(&self, side: Side) -> bool {
        side == Side::Write
    }
}

fn eval(script: &str, keys: &[&str], arguments: &[&str]) -> Command {
    let count = keys.len().to_string();
    [&["EVAL", script, &count][..], keys, arguments].concat().into_iter().map(str::to_owned).collect()
}

/// What is derived from a name is in the same slot of a cluster.
fn in_braces(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

fn channel(hold: &Hold) -> String {
    let name = in_braces(&hold.lock);
    match hold.side {
        Side::Plain => format!("redisson_lock__channel:{name}"),
        Side::Read | Side::Write => format!("redisson_rwlock:{name}"),
    }
}

fn reads(hold: &Hold) -> String {
    format!("{}:{}:rwlock_timeout", in_braces(&hold.lock), hold.holder)
}

fn write_side(hold: &Hold) -> String {
    format!("{}:write", hold.holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::commands::Commands;
    use rlock_testing::{Client, Reply, Server};

    const SIDES: [Side; 3] = [Side::Plain, Side::Read, Side::Write];

    fn hold(side: Side) -> Hold {
        Hold { lock: "lock".to_owned(), holder: "scripts-1:1".to_owned(), side, lease_ms: 30_000 }
    }

    /// What is stored for somebody who has the lock.
    fn stored(client: &mut Client, speech: &dyn Speech, hold: &Hold) -> Vec<(String, String, Reply)> {
        assert_eq!(client.run(&speech.acquire(hold, None, false)), Reply::Nil);
        let stored = client.everything().into_iter().map(|(name, kind, value, _)| (name, kind, value)).collect();
        assert_eq!(client.run(&speech.release(hold, false)), Reply::Int(1));
        assert_eq!(client.keys(), [""; 0]);
        stored
    }

    #[test]
    fn scripts_store_what_the_commands_store() {
        let server = Server::start();
        let mut client = server.client();
        for hold in SIDES.map(hold) {
            assert_eq!(stored(&mut client, &Scripts, &hold), stored(&mut client, &Commands, &hold));
        }
    }

    #[test]
    fn scripts_renew_what_can_be_renewed_without_harm() {
        let server = Server::start();
        let mut client = server.client();
        for hold in SIDES.map(hold) {
            client.run(&Scripts.acquire(&hold, None, false));
            let renewed = Scripts.renew(&hold).map(|command| client.run(&command));
            assert_eq!(renewed, (hold.side != Side::Read).then_some(Reply::Int(1)));
            client.run(&Scripts.release(&hold, false));
            let gone = Scripts.renew(&hold).map(|command| client.run(&command));
            assert_eq!(gone, (hold.side != Side::Read).then_some(Reply::Int(0)));
        }
    }

    #[test]
    fn what_is_gone_is_released_by_one_side_only() {
        let server = Server::start();
        for hold in SIDES.map(hold) {
            let reply = server.client().run(&Scripts.release(&hold, false));
            assert_eq!(reply == Reply::Int(1), Scripts.releases_what_is_gone(hold.side), "{reply:?}");
        }
    }
}
