//! During a grace no waiter is granted a lock, whatever frees it; and waiters keep their order.

use super::for_all_waiters;
use super::scene::{First, Outcome, Scene};
use crate::grace::{LONG_MS, begin, end};
use rlock_testing::{Cluster, Reply, Server, text, wait_until};

for_all_waiters!(
    nothing_is_granted_before_the_grace_is_over,
    all_waiters_are_granted_in_their_order_when_the_grace_is_over,
    a_wait_that_ends_in_the_grace_says_when_to_ask_again,
    a_grace_that_ends_in_a_pause_grants_after_the_pause,
    a_server_that_is_demoted_in_the_grace_dismisses_its_waiters,
    what_is_granted_may_not_outlast_a_grace_that_was_made_shorter,
);

fn nothing_is_granted_before_the_grace_is_over(scene: &mut Scene) {
    for free in
        ["RLOCK.RELEASE k ann", "RLOCK.BREAK k", "DEL k", "PEXPIRE k 5", "RENAME k other", "FLUSHALL", "SET k 1"]
    {
        for (take, ask) in [("ACQUIRE", "ACQUIRE"), ("RACQUIRE", "WACQUIRE"), ("WACQUIRE", "RACQUIRE")] {
            scene.say(&format!("RLOCK.{take} k ann {LONG_MS}"));
            begin(scene, LONG_MS);
            let mut bob = scene.wait(&format!("RLOCK.{ask} k bob 1000000 WAIT 0"));
            // Sent together: a key that is no lock would end the wait if the server checked it in between.
            scene.say_all([free, "DEL k"]);
            wait_until("the lock is free", || scene.say("EXISTS k") == Reply::Int(0));
            let left = scene.say(&format!("RLOCK.{ask} k cid 1000000")).as_int();
            assert!(left > LONG_MS / 2, "{free}: {left}");
            assert_eq!((scene.figure("waiters"), scene.say("EXISTS k")), (1, Reply::Int(0)), "{free}");
            end(scene);
            bob.is_granted();
            scene.say("FLUSHALL");
        }
    }
}

fn all_waiters_are_granted_in_their_order_when_the_grace_is_over(scene: &mut Scene) {
    const LEASE_MS: i64 = 1_000;
    begin(scene, LONG_MS);
    let ask = |key: i32, name: &str| format!("RLOCK.ACQUIRE k{key} {name} {LEASE_MS} WAIT 0 FENCED");
    let mut first: Vec<_> = (0..100).map(|key| scene.wait(&ask(key, "first"))).collect();
    let mut second: Vec<_> = (0..100).map(|key| scene.wait(&ask(key, "second"))).collect();
    // The grace has the length that is set now, so it is soon over, by itself.
    let passed = LONG_MS - scene.figure("grace_left_ms");
    scene.say(&format!("CONFIG SET rlock.grace {}", LEASE_MS.max(passed + 200)));
    let tokens: Vec<_> = first.iter_mut().map(|waiter| waiter.outcome().token()).collect();
    for key in 0..100 {
        scene.say(&format!("RLOCK.RELEASE k{key} first"));
    }
    for (waiter, before) in second.iter_mut().zip(tokens) {
        let token = waiter.outcome().token();
        assert!(before < token, "{token} after {before}");
    }
}

fn a_wait_that_ends_in_the_grace_says_when_to_ask_again(scene: &mut Scene) {
    begin(scene, LONG_MS);
    let mut free = scene.wait("RLOCK.ACQUIRE free bob 600000 WAIT 30");
    let Outcome::TimeIsUp(left) = free.outcome() else { panic!("it is granted") };
    assert!((1..=LONG_MS).contains(&left), "{left}");
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'bob', 600000, 'WAIT', 0)";
    for left in [
        scene.transaction(["RLOCK.ACQUIRE free bob 600000 WAIT 0"])[0].clone(),
        scene.run(&["EVAL", script, "1", "free"]),
        scene.say("RLOCK.ACQUIRE free bob 600000 FENCED").as_list()[0].clone(),
    ] {
        assert!((1..=LONG_MS).contains(&left.as_int()), "{left:?}");
    }
    assert_eq!(scene.keys(), [""; 0]);
    scene.say("HSET held ann 1");
    assert_eq!(scene.say("RLOCK.ACQUIRE held bob 600000"), Reply::Int(-1), "without an expiry nothing ends it");
}

fn a_grace_that_ends_in_a_pause_grants_after_the_pause(scene: &mut Scene) {
    begin(scene, 1500);
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 1500 WAIT 0");
    scene.say("CLIENT PAUSE 600000 WRITE");
    wait_until("the grace is over", || scene.figure("grace_left_ms") == 0);
    assert_eq!((scene.figure("waiters"), scene.figure("grants")), (1, 0));
    scene.say("CLIENT UNPAUSE");
    bob.is_granted();
}

fn a_server_that_is_demoted_in_the_grace_dismisses_its_waiters(scene: &mut Scene) {
    begin(scene, LONG_MS);
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    scene.say("REPLICAOF 127.0.0.1 1");
    let outcome = bob.outcome();
    assert!(outcome == Outcome::CutOff || outcome.is_error("UNBLOCKED"), "{outcome:?}");
    assert_eq!(scene.figure("grace_left_ms"), 0, "a replica has none");
}

#[test]
fn a_free_lock_with_a_slot_that_moves_away_in_the_grace_sends_its_waiters_away() {
    let start = |_| {
        let node = Server::prepare().in_cluster().load_arguments(&["grace", "7000000"]);
        node.options(&["--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no"]).start()
    };
    let cluster = Cluster { masters: (0..3).map(start).collect(), replicas: Vec::new() };
    Cluster::join(&cluster.masters.iter().collect::<Vec<_>>(), &[]);
    let key = cluster.key_on(0);
    let mut here = Scene::at(&cluster.masters[0], First::Client);
    let mut waiters = ["bob", "cid"].map(|name| here.wait(&format!("RLOCK.ACQUIRE {key} {name} 600000 WAIT 0")));
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    slot.finish();
    for waiter in &mut waiters {
        let outcome = waiter.outcome();
        assert!(outcome.is_error("TRYAGAIN"), "{outcome:?}");
    }
    assert_eq!(here.figure("waiters"), 0);
}

fn what_is_granted_may_not_outlast_a_grace_that_was_made_shorter(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let mut cid = scene.wait("RLOCK.ACQUIRE k cid 5000 WAIT 0");
    assert_eq!(scene.say("CONFIG SET rlock.grace 5000"), text("OK"));
    scene.say("RLOCK.RELEASE k ann");
    let Outcome::Error(line) = bob.outcome() else { panic!("it is granted") };
    assert!(line.starts_with("ERR lease must be at most as long as rlock.grace"), "{line}");
    cid.is_granted();
}
