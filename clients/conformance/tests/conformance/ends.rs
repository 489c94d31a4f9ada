//! How clients and processes end: other clients get what they had.

use crate::load::{assert_within, wait_within};
use crate::world::*;
use rlock_testing::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

/// After this time an unattended session is gone.
const SESSION: Duration = Duration::from_secs(3);

/// A client that is closed leaves nothing. When it reports its end, the server knows of it already.
pub fn a_client_that_is_closed(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    for key in ["x", "y", "z"] {
        ok(client.acquire(key, plain(key)));
    }
    let waits: Vec<_> = (0..20).map(|number| client.wants(&number.to_string(), plain("a"))).collect();
    eye.until_waiting(20);
    ok(client.asks(json!({"do": "close"})));
    for id in waits {
        fails_as("closed", &client.answer(id));
    }
    fails_as("closed", &client.acquire("late", plain("b")));
    assert_eq!((eye.figure("waiters"), eye.keys()), (0, vec!["a".to_owned()]));
    wait_within(SESSION + SOON, "its session ends", || eye.figure("sessions") == 0);
    wait_until("its connections end", || connections(&mut eye).is_empty());
}

/// A process ends by itself when there is nothing more for it to do.
pub fn a_process_that_ends(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    ok(client.acquire("b", plain("b")));
    client.wants("a", plain("a"));
    eye.until_waiting(1);
    let began = Instant::now();
    let status = client.end(rlock_testing::PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_within("it ends", began, Duration::from_secs(2), Instant::now());
    wait_within(SESSION + SOON, "it waits no more", || eye.figure("waiters") == 0);
}

/// A process dies while it holds: the next one gets the lock when the lease ends, and not before.
pub fn a_holder_that_dies(world: &World) {
    let (server, mut eye, holder) = world.with_client();
    let next = world.client_of(&server);
    let held = ok(holder.acquire("a", with(plain("a"), json!({"lease": 2_000}))));
    let waits = next.wants("a", plain("a"));
    eye.until_waiting(1);
    until_renewed(&mut eye, "a");
    holder.kill();
    let end = until_lock_goes_from(&mut eye, "a", held["holder"].as_str().expect("a holder"));
    let (answer, granted) = next.answer_within(SOON, waits);
    ok(answer);
    assert!(granted.at_unix_ms >= end, "{} before {end}", granted.at_unix_ms);
    ok(next.release("a"));
}

/// A process dies while it waits: those behind it are not held up.
pub fn a_waiter_that_dies(world: &World) {
    let (server, mut eye, dies) = world.with_taken("a");
    let next = world.client_of(&server);
    dies.wants("a", plain("a"));
    eye.until_waiting(1);
    let waits = next.wants("a", plain("a"));
    eye.until_waiting(2);
    dies.kill();
    release_by_hand(&mut eye, "a");
    ok(next.answer_within(SESSION + SOON, waits).0);
    ok(next.release("a"));
    wait_within(SESSION + SOON, "its session ends", || eye.figure("waiters") == 0);
    assert!(!exists(&mut eye, "a"));
}
