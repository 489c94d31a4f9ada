//! Locks of all kinds, on a healthy server: which client gets them, and what the server then knows.

use crate::load::assert_within;
use crate::world::*;
use rlock_testing::{unix_ms, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

/// A lock is Redisson's hash, with this holder and its lease. Others find it taken, and the same client does too, since each
/// hold without an owner has a holder of its own. After the release the lock is gone, and the next holder gets it.
pub fn one_holds(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let before = unix_ms();
    let held = ok(first.acquire("a", with(plain("orders:42"), json!({"lease": 20_000}))));
    let holder = held["holder"].as_str().expect("a holder").to_owned();
    assert_eq!(eye.hash("orders:42"), [(holder.clone(), "1".to_owned())]);
    let end = eye.expiry("orders:42");
    assert!((before + 20_000..=unix_ms() + 20_000).contains(&end), "{end}");
    let look = first.look("a");
    assert!(
        !look.is_lost && look.remaining_ms > 10_000 && look.asked_at_unix_ms + look.remaining_ms <= end,
        "{look:?}"
    );
    fails_as("busy", &second.acquire("b", with(plain("orders:42"), json!({"wait": 0}))));
    fails_as("busy", &first.acquire("b", with(plain("orders:42"), json!({"wait": 0}))));
    ok(first.release("a"));
    assert!(!exists(&mut eye, "orders:42"), "it is released when that is reported");
    let again = ok(first.acquire("c", plain("orders:42")));
    assert_ne!(again["holder"], json!(holder), "another hold is another holder");
    ok(first.release("c"));
    ok(second.acquire("d", plain("orders:42")));
    ok(second.release("d"));
    assert!(!exists(&mut eye, "orders:42"));
}

/// The release itself grants the lock to the waiters, in the order of asking.
pub fn a_release_hands_over(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", plain("orders:42")));
    let waits = second.wants("b", plain("orders:42"));
    eye.until_waiting(1);
    let third = first.wants("c", with(plain("orders:42"), json!({"wait": 600_000})));
    eye.until_waiting(2);
    ok(first.release("a"));
    let granted = ok(second.answer(waits));
    assert_eq!(eye.hash("orders:42"), [(granted["holder"].as_str().unwrap().to_owned(), "1".to_owned())]);
    // The lease of a wait's grant may be short at first: it is made longer while the lock is held.
    wait_until("it has the lease that is wanted", || eye.expiry("orders:42") > unix_ms() + 5_000);
    ok(second.release("b"));
    ok(first.answer(third));
    ok(first.release("c"));
    assert_eq!(eye.figures(["hand_offs", "waits", "waiters"]), [2, 2, 0]);
}

/// Readers share, writers do not.
pub fn readers_share(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let (read, write) = (json!({"read": "prices", "wait": 0}), json!({"write": "prices", "wait": 0}));
    ok(first.acquire("r1", read.clone()));
    ok(second.acquire("r2", read.clone()));
    assert_eq!(eye.run(&["HGET", "prices", "mode"]).as_text(), "read");
    fails_as("busy", &second.acquire("w", write.clone()));
    let waits = second.wants("w", json!({"write": "prices"}));
    eye.until_waiting(1);
    fails_as("busy", &first.acquire("r3", read.clone()));
    ok(first.release("r1"));
    ok(second.release("r2"));
    ok(second.answer(waits));
    assert_eq!(eye.run(&["HGET", "prices", "mode"]).as_text(), "write");
    fails_as("busy", &first.acquire("r4", read));
    fails_as("busy", &first.acquire("w2", write));
    ok(second.release("w"));
    assert!(!exists(&mut eye, "prices"));
}

/// At most so many permits are taken at a time.
pub fn permits_are_limited(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let permit = || json!({"permit": "gpu", "limit": 2, "wait": 0});
    ok(first.acquire("p1", permit()));
    ok(second.acquire("p2", permit()));
    fails_as("busy", &second.acquire("p3", permit()));
    assert_eq!(eye.run(&["ZCARD", "gpu"]).as_int(), 2);
    let waits = first.wants("p3", json!({"permit": "gpu", "limit": 2}));
    eye.until_waiting(1);
    ok(second.release("p2"));
    ok(first.answer(waits));
    ok(first.release("p1"));
    ok(first.release("p3"));
    assert!(!exists(&mut eye, "gpu"));
}

/// Several locks are taken all or none, also after a wait.
pub fn several_are_all_or_none(world: &World) {
    let (_server, mut eye, client) = world.with_taken("{x}:2");
    let both = || json!({"all": ["{x}:1", "{x}:2"]});
    fails_as("busy", &client.acquire("x", with(both(), json!({"wait": 0}))));
    assert!(!exists(&mut eye, "{x}:1"));
    let waits = client.wants("both", both());
    eye.until_waiting(1);
    assert!(!exists(&mut eye, "{x}:1"), "while they are waited for none is taken");
    release_by_hand(&mut eye, "{x}:2");
    let holder = ok(client.answer(waits))["holder"].as_str().expect("a holder").to_owned();
    for key in ["{x}:1", "{x}:2"] {
        assert_eq!(eye.hash(key), [(holder.clone(), "1".to_owned())]);
    }
    ok(client.release("both"));
    assert_eq!(eye.keys(), [""; 0]);
}

/// An owner acquires a lock again while holding it, and has it until the last release. Others find it taken.
pub fn an_owner_acquires_again(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let owned_by = |owner| with(plain("a"), json!({"owner": owner, "wait": 0}));
    ok(client.acquire("first", owned_by("ann")));
    ok(client.acquire("second", owned_by("ann")));
    fails_as("busy", &client.acquire("other", owned_by("bob")));
    for (held, left) in [("first", "1"), ("second", "")] {
        assert!(!client.look("second").is_lost);
        ok(client.release(held));
        let holds = eye.hash("a").first().map(|(_, count)| count.clone()).unwrap_or_default();
        assert_eq!(holds, left);
    }
}

/// Two waits of one owner are both served: the second enters again once the first has the lock.
pub fn an_owner_waits_twice(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let waits = ["first", "second"].map(|held| client.wants(held, with(plain("a"), json!({"owner": "ann"}))));
    eye.until_waiting(1);
    release_by_hand(&mut eye, "a");
    for wait in waits {
        ok(client.answer(wait));
    }
    assert_eq!(eye.hash("a"), [("ann".to_owned(), "2".to_owned())]);
    for held in ["first", "second"] {
        ok(client.release(held));
    }
    until_nothing_is_left(&mut eye, "a");
}

/// Fencing tokens grow with each grant, after a wait as well.
pub fn tokens_grow(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let fenced = || with(plain("a"), json!({"fenced": true}));
    let mut last = 0;
    let mut grows = |granted: serde_json::Value| {
        let token = granted["token"].as_u64().expect("a token");
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    let waits = client.wants("0", fenced());
    eye.until_waiting(1);
    release_by_hand(&mut eye, "a");
    grows(ok(client.answer(waits)));
    for round in 1..=3 {
        ok(client.release(&(round - 1).to_string()));
        grows(ok(client.acquire(&round.to_string(), fenced())));
    }
}

/// Each of several locks has its own token, in the order in which the locks were wanted.
pub fn tokens_of_several(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    for key in ["{t}:1", "{t}:1", "{t}:2"] {
        ok(client.acquire(key, with(plain(key), json!({"fenced": true}))));
        ok(client.release(key));
    }
    let both = ["{t}:2", "{t}:1"];
    let tokens = ok(client.acquire("both", json!({"all": both, "fenced": true})))["tokens"].clone();
    for (place, key) in both.iter().enumerate() {
        assert_eq!(eye.run(&["GET", &format!("redisson_lock_token:{key}")]).as_text(), tokens[place].to_string());
    }
}

/// One waiter too many is refused at once.
pub fn a_queue_may_be_long_enough(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let short = || with(plain("a"), json!({"max_waiters": 1}));
    let waits = client.wants("x", short());
    eye.until_waiting(1);
    fails_as("queue-full", &client.acquire("y", short()));
    assert_eq!(eye.figure("waiters"), 1);
    release_by_hand(&mut eye, "a");
    ok(client.answer(waits));
    ok(client.release("x"));
}

/// A lease that is fixed is not renewed. It ends by itself, no later than on the server and not much sooner, and the
/// loss is reported.
pub fn a_fixed_lease_ends(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let began = Instant::now();
    ok(client.acquire("a", with(plain("a"), json!({"fixed": 1_000}))));
    let end = eye.expiry("a");
    guarantees_no_more_than(&client, "a", || end);
    let received = is_reported_lost_by("ended", &client, "a");
    assert!(received.at - began >= Duration::from_millis(900), "given up with no need: {:?}", received.at - began);
    assert_within("the loss is reported", began, Duration::from_secs(1), received.at);
    until_past(end);
    is_lost_by("ended", &client.release("a"));
    until_nothing_is_left(&mut eye, "a");
}

/// A lock that too few replicas have confirmed is released at once.
pub fn too_few_replicas(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let confirmed = with(plain("a"), json!({"replicas": 1, "within": 200}));
    fails_as("too-few-replicas", &client.acquire("a", confirmed));
    until_nothing_is_left(&mut eye, "a");
}
