//! Everything but a release that frees a lock, and moves its queue on.

use rlock_testing::{Reply, Server, ServerVersion, start_waiting, text, wait_until};

/// The server's clock tells how late each of a hundred grants was; half of them may meet a machine that stands still.
#[test]
fn a_lease_that_ends_moves_the_queue_on_within_5_ms() {
    let server = Server::start();
    let mut client = server.client();
    // The server's own sweep would come too late, and would hide that.
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut late: Vec<_> = (0..100)
        .map(|number| {
            client.say(&format!("RLOCK.ACQUIRE k{number} ann 600000"));
            let mut waiter = start_waiting(&server, &format!("RLOCK.ACQUIRE k{number} bob 600000 WAIT 0"));
            client.say(&format!("PEXPIRE k{number} 20"));
            let end = client.expiry(&format!("k{number}"));
            assert_eq!(waiter.receive(), Reply::Nil);
            client.expiry(&format!("k{number}")) - 600_000 - end
        })
        .collect();
    late.sort_unstable();
    assert!(late[0] >= 0 && late[50] <= 5, "in ms: {late:?}");
}

#[test]
fn whatever_removes_the_lock_moves_the_queue_on() {
    for removal in [
        &["DEL k"][..],
        &["UNLINK k"],
        &["HDEL k ann"],
        &["RENAME k elsewhere"],
        &["MOVE k 5"],
        &["PEXPIREAT k 1"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["FLUSHALL ASYNC"],
        &["SWAPDB 0 7"],
        &["MULTI", "DEL k", "SET x 1", "EXEC"],
        &["SUNIONSTORE k none"],
    ] {
        let server = Server::start();
        let mut client = server.client();
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        for command in removal {
            client.say(command);
        }
        if ServerVersion::under_test().moves_clients() {
            client.say("SELECT 0");
        }
        // By the next command it is done: not when the lock is next looked at anyway.
        assert_eq!(client.figure("waiters"), 0, "{removal:?}");
        assert_eq!(bob.receive(), Reply::Nil, "{removal:?}");
        assert_eq!(client.hash("k"), [("bob".into(), "1".into())], "{removal:?}");
    }
}

#[test]
fn a_script_that_unlocks_as_redissons_does_moves_the_queue_on() {
    let server = Server::start();
    let mut client = server.client();
    client.say("HINCRBY k java:1 1");
    client.say("PEXPIRE k 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let script = "redis.call('del', KEYS[1]) redis.call('publish', 'redisson_lock__channel:{k}', 0) return 1";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    assert_eq!(client.figure("waiters"), 0);
    assert_eq!(bob.receive(), Reply::Nil);
}

/// No key goes and no lease changes: the mode in the hash is all that tells.
#[test]
fn a_script_that_steps_down_as_redissons_does_lets_readers_in() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.WACQUIRE k ann 600000");
    client.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.RACQUIRE k bob 600000 WAIT 0");
    let script = "redis.call('hdel', KEYS[1], 'ann:write') redis.call('hset', KEYS[1], 'mode', 'read') return 1";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
    assert_eq!(bob.receive(), Reply::Nil);
}

#[test]
fn nobody_gets_between_a_removal_and_the_grant() {
    // As a client that does not know the queue would try it.
    let script = "if redis.call('exists', KEYS[1]) == 1 then return 0 end
                  return redis.call('hincrby', KEYS[1], 'thief', 1)";
    let by_rlock: &[&str] = &["RLOCK.ACQUIRE", "k", "thief", "600000"];
    let by_script: &[&str] = &["EVAL", script, "1", "k"];
    let server = Server::start();
    let mut client = server.client();
    for removal in [&["DEL", "k"][..], &["UNLINK", "k"], &["EVAL", "return redis.call('del', KEYS[1])", "1", "k"]] {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        client.send_together(&[removal, by_rlock]);
        assert_eq!(client.receive(), Reply::Int(1));
        assert!(client.receive().as_int() > 0, "an RLOCK command respects the queue on every server");
        assert_eq!(bob.receive(), Reply::Nil);
        client.say("RLOCK.RELEASE k bob");
        if ServerVersion::under_test().has_jobs() {
            client.say("RLOCK.ACQUIRE k ann 600000");
            let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
            client.send_together(&[removal, by_script]);
            assert_eq!(client.receive(), Reply::Int(1));
            assert_eq!(client.receive(), Reply::Int(0), "nobody at all gets between where the server has jobs");
            assert_eq!(bob.receive(), Reply::Nil);
            client.say("RLOCK.RELEASE k bob");
        }
    }
}

#[test]
fn what_becomes_of_a_lock_that_is_no_lock_any_more() {
    for overwriting in ["SET k text", "RENAME text k", "COPY text k REPLACE", "RESTORE"] {
        let server = Server::start();
        let mut client = server.client();
        client.say("SET text hello");
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        if overwriting == "RESTORE" {
            let script = "return redis.call('restore', KEYS[1], 0, redis.call('dump', KEYS[2]), 'replace')";
            assert_eq!(client.run(&["EVAL", script, "2", "k", "text"]), text("OK"));
        } else {
            client.say(overwriting);
        }
        assert!(bob.receive().as_error().starts_with("WRONGTYPE"), "{overwriting}");
        assert_eq!(client.figure("waiters"), 0);
    }
}

/// Each event that is heard costs the client that causes it.
#[test]
fn events_are_heard_only_while_somebody_waits() {
    let ends = ServerVersion::under_test().ends_subscriptions();
    let server = Server::start();
    let mut client = server.client();
    for (acquire, subscriptions) in [("RLOCK.ACQUIRE", 1), ("RLOCK.WACQUIRE", 2)] {
        for _ in 0..2 {
            client.say(&format!("{acquire} k ann 600000"));
            let mut bob = start_waiting(&server, &format!("{acquire} k bob 600000 WAIT 0"));
            assert_eq!(client.figure("keyspace_subscriptions"), subscriptions, "{acquire}");
            client.say("DEL k");
            assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
            assert_eq!(bob.receive(), Reply::Nil);
            client.say("RLOCK.RELEASE k bob");
            if ends {
                wait_until("nothing is heard any more", || client.figure("keyspace_subscriptions") == 0);
            }
        }
    }
    client.say("RLOCK.ACQUIRE k ann 20");
    assert_eq!(start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0").receive(), Reply::Nil);
    assert_eq!(client.figure("lease_expiries"), 1, "it is heard once, however often listening has begun");
}

#[test]
fn who_comes_before_listening_ends_is_listened_for() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("DEL k");
    assert_eq!(bob.receive(), Reply::Nil);
    let mut cid = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
    let began = client.time_ms();
    wait_until("it would have ended", || client.time_ms() > began + 1_200);
    assert_eq!(client.figure("keyspace_subscriptions"), 1);
    client.say("DEL k");
    assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
    assert_eq!(cid.receive(), Reply::Nil);
}

#[test]
fn an_evicted_lock_goes_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    client.say("CONFIG SET maxmemory 1");
    wait_until("the lock is evicted", || {
        client.say("SET x 1");
        client.info("stats").number("evicted_keys") == 1
    });
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(bob.receive(), Reply::Nil);
    assert_eq!(client.hash("k"), [("bob".into(), "1".into())]);
}

#[test]
fn a_lease_that_gets_shorter_is_noticed() {
    let server = Server::start();
    let mut client = server.client();
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    for shortening in ["RLOCK.RENEW k ann 20", "RLOCK.ACQUIRE k ann 20", "PEXPIRE k 20", "RLOCK.RELEASE k ann LEASE 20"]
    {
        let late = (0..11).map(|_| {
            client.say("RLOCK.ACQUIRE k ann 600000");
            client.say("RLOCK.ACQUIRE k ann 600000");
            let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
            client.say(shortening);
            let end = client.expiry("k");
            assert_eq!(bob.receive(), Reply::Nil);
            let granted = client.expiry("k") - 600_000;
            client.say("RLOCK.RELEASE k bob");
            assert!(granted >= end, "{shortening}: ended at {end}, granted at {granted}");
            granted - end
        });
        // Well before the lock is looked at anyway, which is every 100 ms.
        let late = median(late.collect());
        assert!(late < 20, "{shortening}: mostly late by {late} ms");
    }
}

/// Nothing tells of this on some servers, so they have to look.
#[test]
fn a_lock_that_is_set_over_is_noticed_soon() {
    let server = Server::start();
    let mut client = server.client();
    let late = (0..5).map(|_| {
        client.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        client.say("SET k text");
        let overwritten = client.time_ms();
        assert!(bob.receive().as_error().starts_with("WRONGTYPE"));
        client.say("DEL k");
        client.time_ms() - overwritten
    });
    let late = median(late.collect());
    assert!(late < 250, "mostly late by {late} ms");
}

fn median(mut all: Vec<i64>) -> i64 {
    all.sort_unstable();
    all[all.len() / 2]
}
