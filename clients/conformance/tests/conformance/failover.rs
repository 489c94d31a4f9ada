//! Several servers: a cluster, and a master that fails and is replaced. With a grace no client gets a lock while another one
//! still believes in it.

use crate::world::*;
use rlock_conformance::{Adapter, Saying};
use rlock_testing::{Client, Cluster, Watched, wait_for_as_long_as, wait_until};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than a failover takes.
const LEASE_MS: u64 = 8_000;

/// Longer than clients take to find the new master.
const GRACE_MS: u64 = 15_000;

/// A failover, then a grace, then the rest of a wait.
const FAILOVER: Duration = Duration::from_secs(60);

/// Each lock is at the node that has its slot, and is waited for there.
pub fn a_cluster(world: &World) {
    let cluster = Cluster::start();
    let client = world.open(json!({"cluster": [at(cluster.masters[0].port())["url"]]}));
    for (place, master) in cluster.masters.iter().enumerate() {
        let (mut eye, key) = (master.client(), cluster.key_on(place));
        take(&mut eye, &key);
        let waits = client.wants(&key, plain(&key));
        eye.until_waiting(1);
        release_by_hand(&mut eye, &key);
        ok(client.answer(waits));
        assert!(exists(&mut eye, &key));
        ok(client.release(&key));
        until_nothing_is_left(&mut eye, &key);
    }
}

/// Each value is stored at the node that has the slot of its key, and is forgotten there.
pub fn values_in_a_cluster(world: &World) {
    let cluster = Cluster::start();
    let client = world.open(json!({"cluster": [at(cluster.masters[0].port())["url"]]}));
    for (place, master) in cluster.masters.iter().enumerate() {
        let (mut eye, key) = (master.client(), cluster.key_on(place));
        let leads = begin_once(&client, &key, json!({}));
        finish(&client, leads, &key);
        is_given(&key, client.answer(leads));
        is_given(&key, client.answer(ask_once(&client, &key, json!({}))));
        assert_eq!(stored(&mut eye, &key).as_ref(), Some(&key));
        ok(client.asks(json!({"do": "forget", "once": key})));
        assert_eq!(stored(&mut eye, &key), None);
    }
}

/// The new master has the lock: its holder may keep it.
pub fn a_lock_that_is_known_to_the_new_master(world: &World) {
    fails_over(world, true);
}

/// The replica lacks the lock, and the holder is suspended, so it does not learn of that. The waiter gets the lock when the
/// holder can no longer believe in it.
pub fn a_lock_that_is_forgotten(world: &World) {
    fails_over(world, false);
}

/// A master and a replica with such a grace.
fn watched_with_grace(grace_ms: u64) -> Watched {
    let watched = Watched::start(1);
    for server in &watched.servers {
        assert_eq!(server.client().say(&format!("CONFIG SET rlock.grace {grace_ms}")), rlock_testing::text("OK"));
    }
    watched
}

/// A client that finds the master by its sentinels.
fn open(world: &World, watched: &Watched) -> Adapter {
    let sentinels: Vec<_> = watched.sentinels.iter().map(|it| at(it.port())["url"].clone()).collect();
    let place = json!({"sentinels": sentinels, "master": Watched::NAME});
    world.open(with(place, json!({"lease": LEASE_MS, "patience": 60_000})))
}

fn until_promoted(watched: &Watched) -> Client {
    wait_for_as_long_as(FAILOVER, "the replica is the master", || watched.master_port() == watched.servers[1].port());
    watched.servers[1].client()
}

/// In the grace after a failover, answers are given: one that was stored before, and one of a leader that works through
/// the failover. A caller of another key does not lead until the grace is over.
pub fn answers_in_a_grace(world: &World) {
    let mut watched = watched_with_grace(GRACE_MS);
    let [first, second] = [open(world, &watched), open(world, &watched)];
    let mut eye = watched.servers[0].client();
    let kept = begin_once(&first, "kept", json!({}));
    finish(&first, kept, "before");
    is_given("before", first.answer(kept));
    let leads = begin_once(&first, "led", json!({}));
    let waits = ask_once(&second, "led", json!({}));
    eye.until_waiting(1);
    assert_eq!(eye.say("WAIT 1 20000").as_int(), 1, "the replica has it");
    watched.servers[0].kill();
    let mut eye = until_promoted(&watched);
    let mut grace_left = || eye.info("rlock").number("rlock_grace_left_ms");
    let new = ask_once(&second, "new", json!({}));
    is_given("before", second.answer(ask_once(&second, "kept", json!({}))));
    finish(&first, leads, "through");
    is_given("through", first.answer(leads));
    is_given("through", second.answer(waits));
    let is_early = !has_begun(&second, new);
    assert!(is_early && grace_left() > 0, "the grace lasts longer than all this: {} ms left", grace_left());
    // A failover resets no clock here: the grace's end is the same for both.
    wait_for_as_long_as(FAILOVER, "the grace is over", || {
        let is_early = !has_begun(&second, new);
        let left = grace_left();
        assert!(is_early || left == 0, "a new leader with {left} ms of the grace left");
        left == 0
    });
    until_begun(&second, new);
    finish(&second, new, "after");
    is_given("after", second.answer(new));
}

fn fails_over(world: &World, is_known: bool) {
    let mut watched = watched_with_grace(LEASE_MS);
    let (first, second) = (open(world, &watched), open(world, &watched));
    let mut eye = watched.servers[0].client();
    if !is_known {
        watched.servers[1].freeze();
        eye.say("CLIENT KILL TYPE replica");
    }
    ok(first.acquire("a", plain("a")));
    let waits = second.wants("a", plain("a"));
    eye.until_waiting(1);
    if is_known {
        assert_eq!(eye.say("WAIT 1 20000").as_int(), 1, "the replica has it");
    }
    if !is_known {
        first.freeze();
    }
    watched.servers[0].kill();
    if !is_known {
        watched.servers[1].thaw();
    }
    // The sentinels cut off clients that were connected before.
    let mut eye = until_promoted(&watched);
    if is_known {
        believes_until_another_does(&first, &second, waits, &mut eye);
    } else {
        ok(second.answer_within(FAILOVER, waits).0);
        first.thaw();
        let look = first.look("a");
        assert!(look.is_lost && !second.look("a").is_lost, "both believe in it: {look:?}");
        first.until_lost("a");
    }
    ok(second.release("a"));
    until_nothing_is_left(&mut eye, "a");
}

/// Checks both clients until the second one has the lock. The first one releases the lock if it still has it when nothing
/// keeps the second one from getting it.
fn believes_until_another_does(first: &Adapter, second: &Adapter, waits: u64, eye: &mut Client) {
    let is_granted = || second.said().iter().any(|it| matches!(&it.what, Saying::Answer { id, .. } if *id == waits));
    let deadline = Instant::now() + FAILOVER;
    while !is_granted() {
        assert!(Instant::now() < deadline, "the second one waits forever");
        let no_grace = eye.info("rlock").number("rlock_grace_left_ms") == 0;
        if no_grace && eye.figure("waiters") == 1 && !first.look("a").is_lost {
            let released = first.release("a");
            assert!(released.is_ok() || !is_granted(), "{released:?}");
            ok(second.answer(waits));
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let look = first.look("a");
    assert!(look.is_lost, "both believe in it: {look:?}");
    ok(second.answer(waits));
    wait_until("the second one's belief is the server's", || exists(eye, "a"));
    assert!(!second.look("a").is_lost);
}
