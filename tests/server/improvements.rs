//! Where the commands are deliberately better than Redisson's scripts: lines of `docs/redisson.md`. What they publish is in
//! `publishing.rs`.

use crate::grammar::all_refused;
use rlock_testing::{LeaseCheck, Reply, Server};

/// Redisson counts a read hold into a plain lock's hash, and the other way round.
#[test]
fn mixing_kinds_on_one_key_is_refused() {
    all_refused(&[
        (&["RLOCK.ACQUIRE", "read", "h", "1000"], "WRONGKIND", "read-write"),
        (&["RLOCK.ACQUIRE", "both", "other", "1000"], "WRONGKIND", "read-write"),
        (&["RLOCK.RACQUIRE", "plain", "h", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.RACQUIRE", "plain", "other", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.WACQUIRE", "plain", "h", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.RELEASE", "plain", "h", "READ"], "WRONGKIND", "plain"),
        (&["RLOCK.RELEASE", "plain", "h", "WRITE"], "WRONGKIND", "plain"),
    ]);
}

/// Redisson's renewal of one reader sets the lease of all of them.
#[test]
fn renewing_one_reader_does_not_shorten_another() {
    let (_server, mut client) = Server::with_client();
    let lease = LeaseCheck::begin(&mut client);
    client.say("RLOCK.RACQUIRE k long 900000");
    client.say("RLOCK.RACQUIRE k short 30000");
    assert_eq!(client.say("RLOCK.RENEW k short 60000"), Reply::Int(1));
    lease.lease_is(&mut client, "k", 900_000);
    lease.lease_is(&mut client, "{k}:short:rwlock_timeout:1", 60_000);
    lease.lease_is(&mut client, "{k}:long:rwlock_timeout:1", 900_000);
}

/// And where the renewed reader's own lease was the longest, what remains is the longest of the others'.
#[test]
fn a_reader_that_shortens_its_lease_falls_back_to_the_others() {
    let (_server, mut client) = Server::with_client();
    let lease = LeaseCheck::begin(&mut client);
    client.say("RLOCK.RACQUIRE k ann 300000");
    client.say("RLOCK.RACQUIRE k bob 900000");
    assert_eq!(client.say("RLOCK.RENEW k bob 60000"), Reply::Int(1));
    lease.lease_is(&mut client, "k", 300_000);
}

/// Redisson sets the writer's lease to that of the reads that remain.
#[test]
fn releasing_a_nested_read_does_not_shorten_the_writers_lease() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.WACQUIRE k ann 900000");
    client.say("RLOCK.RACQUIRE k ann 30000");
    client.say("RLOCK.RACQUIRE k ann 30000");
    let end = client.expiry("k");
    assert_eq!(client.say("RLOCK.RELEASE k ann READ"), Reply::Int(0));
    assert_eq!(client.expiry("k"), end);
}

/// Redisson says that it renewed the hold, and leaves it dead.
#[test]
fn renewing_a_reader_whose_holds_have_run_out_puts_them_back() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.RACQUIRE k ann 900000");
    client.say("RLOCK.RACQUIRE k bob 600000");
    client.say("RLOCK.RACQUIRE k bob 600000");
    client.say("PEXPIREAT {k}:bob:rwlock_timeout:1 1");
    client.say("PEXPIREAT {k}:bob:rwlock_timeout:2 1");
    let lease = LeaseCheck::begin(&mut client);
    assert_eq!(client.say("RLOCK.RENEW k bob 300000"), Reply::Int(1));
    lease.lease_is(&mut client, "{k}:bob:rwlock_timeout:1", 300_000);
    lease.lease_is(&mut client, "{k}:bob:rwlock_timeout:2", 300_000);
    assert_eq!(client.say("GET {k}:bob:rwlock_timeout:2"), Reply::Text("1".into()));
    // Alive again: the lock stays held by it when the other reader leaves.
    assert_eq!(client.say("RLOCK.RELEASE k ann"), Reply::Int(0));
    lease.lease_is(&mut client, "k", 300_000);
}
