//! Everything but a release that frees a lock, and moves its tickets on.

use rlock_testing::{Event, Reply, Server, ServerVersion, Session, Wanted, start_waiting, text, wait_until};

/// Tickets wait on one lock, and nobody ever releases: each gets it when the lease before ends.
#[test]
fn a_lease_that_ends_moves_the_queue_on_within_5_ms() {
    const LEASE_MS: i64 = 20;
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    // The server's own sweep would come too late, and would hide that.
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    client.say("RLOCK.ACQUIRE k holder 600000");
    for number in 0..99 {
        ann.wait_for(&format!("RLOCK.ACQUIRE k h{number} {LEASE_MS} WAIT 0"), &number.to_string());
    }
    ann.wait_for("RLOCK.ACQUIRE k last 600000 WAIT 0", "last");
    ann.arm("WAIT 0");
    let mut wanted = Wanted::by(server.id());
    client.say("PEXPIRE k 20");
    let end = client.expiry("k");
    let mut told = ann.connection.receive().events();
    while told.len() < 100 {
        told.extend(ann.told("WAIT 1000"));
    }
    let order: Vec<_> = told.iter().map(|event| event.ticket.clone()).collect();
    let expected: Vec<_> = (0..99).map(|number| number.to_string()).chain(["last".to_owned()]).collect();
    assert_eq!(order, expected);
    let granted = client.expiry("k") - 600_000;
    let late = granted - end - 99 * LEASE_MS;
    assert!(late >= 0, "a grant was {} ms too early", -late);
    // But for the time in which the server wanted a processor and had none.
    wanted.look();
    let late = late - wanted.ms_between(end, granted);
    assert!(late <= 5 * 100, "a hundred grants were {late} ms late, all together");
}

#[test]
fn whatever_removes_the_lock_moves_the_queue_on() {
    let script = "redis.call('del', KEYS[1]) redis.call('publish', 'redisson_lock__channel:{k}', 0) return 1";
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    for removal in [
        &["DEL k"][..],
        &["UNLINK k"],
        &["HDEL k holder"],
        &["RENAME k elsewhere"],
        &["MOVE k 5"],
        &["PEXPIREAT k 1"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["FLUSHALL ASYNC"],
        &["SWAPDB 0 7"],
        &["MULTI", "DEL k", "SET x 1", "EXEC"],
        &["SUNIONSTORE k none"],
        &["RLOCK.BREAK k"],
        &["script"],
    ] {
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "first");
        let mut second = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
        for command in removal {
            let reply =
                if *command == "script" { client.run(&["EVAL", script, "1", "k"]) } else { client.say(command) };
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
        }
        if ServerVersion::under_test().moves_clients() {
            client.say("SELECT 0");
        }
        // By the next command it is done: not when the lock is next looked at anyway.
        assert_eq!(client.figure("waiters"), 1, "{removal:?}");
        assert_eq!(client.hash("k"), [("ann".into(), "1".into())], "{removal:?}");
        let told = ann.until_told(1);
        assert_eq!((told[0].ticket.as_str(), told[0].outcome.as_str()), ("first", "granted"), "{removal:?}");
        client.say("RLOCK.RELEASE k ann");
        assert_eq!(second.receive(), Reply::Nil, "{removal:?}");
        client.say("FLUSHALL");
    }
}

#[test]
fn a_ticket_waits_in_the_database_where_it_was_asked_for() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    for database in ["3", "0"] {
        client.say(&format!("SELECT {database}"));
        ann.other.say(&format!("SELECT {database}"));
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for(&format!("RLOCK.ACQUIRE k ann{database} 600000 WAIT 0"), database);
    }
    client.say("FLUSHDB");
    assert_eq!(ann.told("WAIT 1000"), [Event::granted(1, "0", None)]);
    client.say("SWAPDB 0 3");
    assert_eq!(ann.told("WAIT 200"), [], "the lock of the one is the other's now, and both are held");
    client.say("DEL k");
    client.say("SELECT 3");
    client.say("DEL k");
    assert_eq!(ann.told("WAIT 1000"), [Event::granted(2, "3", None)]);
    assert_eq!(client.hash("k"), [("ann3".into(), "1".into())]);
}

#[test]
fn a_script_that_steps_down_as_redissons_does_lets_readers_in() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.WACQUIRE k holder 600000");
    client.say("RLOCK.RACQUIRE k holder 600000");
    ann.wait_for("RLOCK.RACQUIRE k ann 600000 WAIT 0", "1");
    let script = "redis.call('hdel', KEYS[1], 'holder:write') redis.call('hset', KEYS[1], 'mode', 'read') return 1";
    assert_eq!(client.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
    assert_eq!(ann.told(""), [Event::granted(1, "1", None)]);
}

#[test]
fn nobody_gets_between_a_removal_and_the_grant() {
    // As a client that does not know the queue would try it.
    let script = "if redis.call('exists', KEYS[1]) == 1 then return 0 end
                  return redis.call('hincrby', KEYS[1], 'thief', 1)";
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    let thieves: [&[&str]; 2] = [&["RLOCK.ACQUIRE", "k", "thief", "600000"], &["EVAL", script, "1", "k"]];
    let has_jobs = ServerVersion::under_test().has_jobs();
    // Without jobs a script gets in between.
    for thief in &thieves[..if has_jobs { 2 } else { 1 }] {
        for removal in [&["DEL", "k"][..], &["UNLINK", "k"], &["EVAL", "return redis.call('del', KEYS[1])", "1", "k"]] {
            client.say("RLOCK.ACQUIRE k holder 600000");
            ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
            client.send_together(&[removal, thief]);
            assert_eq!(client.receive(), Reply::Int(1));
            let left = client.receive();
            assert!(
                thief[0] == "EVAL" && left == Reply::Int(0) || left.as_int() > 0,
                "{removal:?} {thief:?}: {left:?}"
            );
            assert_eq!(ann.until_told(1)[0].outcome, "granted");
            assert_eq!(client.hash("k"), [("ann".into(), "1".into())]);
            client.say("RLOCK.RELEASE k ann");
        }
    }
}

#[test]
fn an_evicted_lock_goes_to_the_next() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    client.say("CONFIG SET maxmemory-policy allkeys-random");
    client.say("CONFIG SET maxmemory 1");
    wait_until("the lock is evicted", || {
        client.say("SET x 1");
        client.info("stats").number("evicted_keys") == 1
    });
    assert_eq!(ann.told("WAIT 200"), [], "a full server grants nothing");
    client.say("CONFIG SET maxmemory 0");
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "1", None)]);
    assert_eq!(client.hash("k"), [("ann".into(), "1".into())]);
}

#[test]
fn a_lease_that_gets_shorter_is_noticed() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("DEBUG SET-ACTIVE-EXPIRE 0");
    for shortening in
        ["RLOCK.RENEW k holder 20", "RLOCK.ACQUIRE k holder 20", "PEXPIRE k 20", "RLOCK.RELEASE k holder LEASE 20"]
    {
        let late = (0..11).map(|_| {
            client.say("RLOCK.ACQUIRE k holder 600000");
            client.say("RLOCK.ACQUIRE k holder 600000");
            ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
            client.say(shortening);
            let end = client.expiry("k");
            ann.until_told(1);
            let granted = client.expiry("k") - 600_000;
            client.say("RLOCK.RELEASE k ann");
            assert!(granted >= end, "{shortening}: ended at {end}, granted at {granted}");
            granted - end
        });
        let mut late: Vec<_> = late.collect();
        late.sort_unstable();
        // Well before the lock is looked at anyway, which is every 100 ms.
        assert!(late[late.len() / 2] < 20, "{shortening}: mostly late by {late:?} ms");
    }
}

/// Nothing tells of this on some servers, so they have to look.
#[test]
fn a_lock_that_is_set_over_is_noticed_soon() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    for overwriting in ["SET k text", "RENAME other k", "COPY other k REPLACE"] {
        client.say("SET other hello");
        client.say("RLOCK.ACQUIRE k holder 600000");
        ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
        client.say(overwriting);
        let overwritten = client.time_ms();
        let told = ann.until_told(1);
        let late = client.time_ms() - overwritten;
        assert!(told[0].is_error("WRONGTYPE"), "{overwriting}: {told:?}");
        assert!(late < 1_000, "{overwriting}: noticed after {late} ms");
        assert_eq!(client.say("GET k"), text(if overwriting == "SET k text" { "text" } else { "hello" }));
        client.say("DEL k");
    }
}

/// A writer gives up: the readers behind it had waited for it only.
#[test]
fn a_deadline_of_one_moves_on_those_who_waited_for_it_only() {
    let server = Server::start();
    let (mut client, mut ann) = (server.client(), Session::open(&server, "ann"));
    client.say("RLOCK.RACQUIRE k holder 600000");
    let mut writer = start_waiting(&server, "RLOCK.WACQUIRE k writer 600000 WAIT 500");
    ann.wait_for("RLOCK.RACQUIRE k ann 600000 WAIT 0", "1");
    assert!(writer.receive().as_int() > 0);
    assert_eq!(ann.told("WAIT 10000"), [Event::granted(1, "1", None)]);
}
