//! Everything except a release that frees a lock, and moves its queue on.

use super::scene::{Scene, Waiter};
use super::{for_all_waiters, median};
use rlock_testing::{Reply, ServerVersion, Wanted, text, wait_until};

for_all_waiters!(
    a_lease_that_ends_moves_the_queue_on_within_5_ms,
    whatever_removes_the_lock_moves_the_queue_on,
    a_script_that_steps_down_as_redissons_does_admits_readers,
    no_request_gets_between_a_removal_and_the_grant,
    what_becomes_of_a_lock_that_is_no_lock_any_more,
    events_are_heard_only_while_there_are_waiters,
    a_waiter_before_listening_ends_is_listened_for,
    an_evicted_lock_goes_to_the_next,
    a_lease_that_gets_shorter_is_noticed,
    a_lock_that_is_set_over_is_noticed_soon,
);

/// No holder releases: each waiter gets the lock when the previous lease ends.
fn a_lease_that_ends_moves_the_queue_on_within_5_ms(scene: &mut Scene) {
    const LEASE_MS: i64 = 20;
    // Without the server's own sweep of expired keys, which would grant the lock too, but later.
    scene.say("DEBUG SET-ACTIVE-EXPIRE 0");
    scene.say("RLOCK.ACQUIRE k holder 600000");
    let mut line: Vec<_> =
        (0..99).map(|number| scene.wait(&format!("RLOCK.ACQUIRE k h{number} {LEASE_MS} WAIT 0"))).collect();
    line.push(scene.wait("RLOCK.ACQUIRE k last 600000 WAIT 0"));
    let mut wanted = Wanted::by(scene.server.id());
    // Set in advance: if the test stalls, it still reads the right end.
    let end = scene.time_ms() + 20;
    scene.say(&format!("PEXPIREAT k {end}"));
    line.iter_mut().for_each(Waiter::is_granted);
    let granted = scene.expiry("k") - 600_000;
    let late = granted - end - 99 * LEASE_MS;
    assert!(late >= 0, "a grant was {} ms too early", -late);
    // Minus the time in which the server wanted a processor and had none.
    wanted.look();
    let late = late - wanted.ms_between(end, granted);
    assert!(late <= 5 * 100, "a hundred grants were {late} ms late, all together");
}

fn whatever_removes_the_lock_moves_the_queue_on(scene: &mut Scene) {
    let unlock = "redis.call('del', KEYS[1]) redis.call('publish', 'redisson_lock__channel:{k}', 0) return 1";
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
        &["RLOCK.BREAK k"],
        &["as Redisson unlocks"],
    ] {
        scene.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let mut cid = scene.wait("RLOCK.ACQUIRE k cid 600000 WAIT 0");
        for command in removal {
            let is_script = *command == "as Redisson unlocks";
            let reply = if is_script { scene.run(&["EVAL", unlock, "1", "k"]) } else { scene.say(command) };
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
        }
        if ServerVersion::under_test().moves_clients() {
            scene.say("SELECT 0");
        }
        // The grant is made before the next command, not when the lock is next checked anyway.
        assert_eq!(scene.figure("waiters"), 1, "{removal:?}");
        assert_eq!(scene.fields("k"), "{bob:1}", "{removal:?}");
        bob.is_granted();
        scene.say("RLOCK.RELEASE k bob");
        cid.is_granted();
        scene.say("FLUSHALL");
    }
}

/// No key goes and no lease changes: only the mode in the hash shows it.
fn a_script_that_steps_down_as_redissons_does_admits_readers(scene: &mut Scene) {
    scene.say("RLOCK.WACQUIRE k ann 600000");
    scene.say("RLOCK.RACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.RACQUIRE k bob 600000 WAIT 0");
    let script = "redis.call('hdel', KEYS[1], 'ann:write') redis.call('hset', KEYS[1], 'mode', 'read') return 1";
    assert_eq!(scene.run(&["EVAL", script, "1", "k"]), Reply::Int(1));
    assert_eq!(scene.figure("waiters"), 0, "not when the lock is next looked at anyway");
    bob.is_granted();
}

fn no_request_gets_between_a_removal_and_the_grant(scene: &mut Scene) {
    // As a client that does not know the queue would try it.
    let script = "if redis.call('exists', KEYS[1]) == 1 then return 0 end
                  return redis.call('hincrby', KEYS[1], 'thief', 1)";
    let session = scene.session_name();
    let by_rlock: &[&str] = &["RLOCK.ACQUIRE", "k", "thief", "600000"];
    let by_ticket = [by_rlock, &["WAIT", "1", "SESSION", &session, "thief"]].concat();
    let by_script = ["EVAL", script, "1", "k"];
    // An RLOCK command respects the queue on every server; no command at all gets between if the server has jobs.
    let thieves = [by_rlock, &by_ticket, &by_script];
    for thief in &thieves[..if ServerVersion::under_test().has_jobs() { 3 } else { 2 }] {
        for removal in [&["DEL", "k"][..], &["UNLINK", "k"], &["EVAL", "return redis.call('del', KEYS[1])", "1", "k"]] {
            scene.say("RLOCK.ACQUIRE k ann 600000");
            let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
            scene.send_together(&[removal, thief]);
            assert_eq!(scene.receive(), Reply::Int(1));
            match scene.receive() {
                Reply::Int(left) => assert_eq!(left > 0, *thief == by_rlock, "{removal:?} {thief:?}: {left}"),
                reply => assert!(*thief == by_ticket && reply == text("WAITING"), "{removal:?} {thief:?}: {reply:?}"),
            }
            bob.is_granted();
            assert_eq!(scene.fields("k"), "{bob:1}");
            scene.say("RLOCK.RELEASE k bob");
        }
    }
}

/// Each waiter gets the same error, and its wait is over.
fn what_becomes_of_a_lock_that_is_no_lock_any_more(scene: &mut Scene) {
    let restore = "return redis.call('restore', KEYS[1], 0, redis.call('dump', 'text'), 'replace')";
    for (becomes, code) in [
        ("SET k text", "WRONGTYPE"),
        ("RENAME text k", "WRONGTYPE"),
        ("COPY text k REPLACE", "WRONGTYPE"),
        ("RESTORE", "WRONGTYPE"),
        ("HSET k bob x cid x", "WRONGTYPE"),
        ("HSET k mode write other:write 1", "WRONGKIND"),
    ] {
        scene.say("SET text hello");
        scene.say("RLOCK.ACQUIRE k ann 600000");
        let mut line = ["bob", "cid"].map(|name| scene.wait(&format!("RLOCK.ACQUIRE k {name} 600000 WAIT 0")));
        match becomes.split_once(' ') {
            None => assert_eq!(scene.run(&["EVAL", restore, "1", "k"]), text("OK")),
            // In one step, so that no waiter is granted it in between.
            Some(("HSET", _)) => drop(scene.transaction(["DEL k", becomes])),
            Some(_) => drop(scene.say(becomes)),
        }
        let [first, second] = line.each_mut().map(|waiter| waiter.outcome());
        assert!(first.is_error(code) && first == second, "{becomes}: {first:?}, {second:?}");
        assert_eq!(scene.figure("waiters"), 0);
        scene.say("FLUSHALL");
    }
}

/// Each event that is heard costs the client that causes it.
fn events_are_heard_only_while_there_are_waiters(scene: &mut Scene) {
    let ends = ServerVersion::under_test().ends_subscriptions();
    // How many subscriptions there are for one waiter alone, and how many if none has ended before.
    for (acquire, options, alone, in_all) in
        [("RLOCK.ACQUIRE", "", 1, 1), ("RLOCK.WACQUIRE", "", 2, 2), ("RLOCK.PACQUIRE", " LIMIT 1", 2, 3)]
    {
        for _ in 0..2 {
            scene.say(&format!("{acquire} k ann 600000{options}"));
            let mut bob = scene.wait(&format!("{acquire} k bob 600000{options} WAIT 0"));
            let subscriptions = if ends { alone } else { in_all };
            assert_eq!(scene.figure("keyspace_subscriptions"), subscriptions, "{acquire}");
            scene.say("DEL k");
            assert_eq!(scene.figure("waiters"), 0, "not when the lock is next looked at anyway");
            bob.is_granted();
            scene.say("RLOCK.RELEASE k bob");
            if ends {
                wait_until("nothing is heard any more", || scene.figure("keyspace_subscriptions") == 0);
            }
        }
    }
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    scene.say("RLOCK.RENEW k ann 20");
    bob.is_granted();
    assert_eq!(scene.figure("lease_expiries"), 1, "it is heard once, however often listening has begun");
}

fn a_waiter_before_listening_ends_is_listened_for(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    scene.say("DEL k");
    bob.is_granted();
    let mut cid = scene.wait("RLOCK.ACQUIRE k cid 600000 WAIT 0");
    let began = scene.time_ms();
    wait_until("it would have ended", || scene.time_ms() > began + 1_200);
    assert_eq!(scene.figure("keyspace_subscriptions"), 1);
    scene.say("DEL k");
    assert_eq!(scene.figure("waiters"), 0, "not when the lock is next looked at anyway");
    cid.is_granted();
}

fn an_evicted_lock_goes_to_the_next(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    scene.say("CONFIG SET maxmemory-policy allkeys-random");
    scene.say("CONFIG SET maxmemory 1");
    wait_until("the lock is evicted", || {
        scene.say("SET x 1");
        scene.info("stats").number("evicted_keys") == 1
    });
    assert_eq!(scene.figure("waiters"), 1, "a full server grants nothing");
    scene.say("CONFIG SET maxmemory 0");
    bob.is_granted();
    assert_eq!(scene.fields("k"), "{bob:1}");
}

fn a_lease_that_gets_shorter_is_noticed(scene: &mut Scene) {
    scene.say("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut late = |lease_ms: i64, shortening: Option<&str>| {
        median((0..11).map(|_| {
            let mut end = scene.time_ms() + lease_ms;
            scene.say(&format!("RLOCK.ACQUIRE k ann {lease_ms}"));
            scene.say(&format!("RLOCK.ACQUIRE k ann {lease_ms}"));
            let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
            if let Some(shortening) = shortening {
                end = scene.time_ms() + 20;
                scene.say(shortening);
            }
            bob.is_granted();
            let granted = scene.expiry("k") - 600_000;
            scene.say("RLOCK.RELEASE k bob");
            assert!(granted >= end, "{shortening:?}: ended at {end}, granted at {granted}");
            granted - end
        }))
    };
    // A shortened lease is noticed as late as one that was short from the beginning, however busy the machine is, and well
    // before the lock is checked anyway, which is every 100 ms.
    let usual = late(200, None);
    for shortening in ["RLOCK.RENEW k ann 20", "RLOCK.ACQUIRE k ann 20", "PEXPIRE k 20", "RLOCK.RELEASE k ann LEASE 20"]
    {
        let late = late(600_000, Some(shortening));
        assert!(late < usual + 20, "{shortening}: mostly late by {late} ms, others by {usual} ms");
    }
}

/// Some servers report no event for this, so the module has to check.
fn a_lock_that_is_set_over_is_noticed_soon(scene: &mut Scene) {
    let late = median((0..5).map(|_| {
        scene.say("RLOCK.ACQUIRE k ann 600000");
        let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
        scene.say("SET k text");
        let overwritten = scene.time_ms();
        assert!(bob.outcome().is_error("WRONGTYPE"));
        assert_eq!(scene.say("GETDEL k"), text("text"));
        scene.time_ms() - overwritten
    }));
    assert!(late < 250, "mostly late by {late} ms");
}
