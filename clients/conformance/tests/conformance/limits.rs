//! One time limit covers everything, whatever state the server is in.

use crate::load::assert_within;
use crate::world::*;
use rlock_testing::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

/// A time limit is kept: no wait ends before it, nor much later, and no waiter stays. With a limit of zero the lock is tried
/// once.
pub fn a_limit_is_kept(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    for limit in [0, 300, 1_000].map(Duration::from_millis) {
        let began = Instant::now();
        let wanted = client.wants("x", with(plain("a"), json!({"wait": limit.as_millis() as u64})));
        let (answer, said) = client.answer_within(rlock_testing::PATIENCE, wanted);
        fails_as("busy", &answer);
        assert!(said.at - began + Duration::from_millis(2) >= limit, "too soon: {:?}", said.at - began);
        assert_within("the limit", began, limit, said.at);
        assert_eq!(eye.figure("waiters"), 0);
    }
}

/// One limit covers everything: a suspended server does not lengthen it. The client takes back what the request has caused
/// until then.
pub fn a_limit_is_kept_on_a_frozen_server(world: &World) {
    let (server, mut eye, client) = world.with_client();
    ok(client.acquire("a", plain("a")));
    ok(client.release("a"));
    server.freeze();
    let (limit, began) = (Duration::from_millis(700), Instant::now());
    let wanted = client.wants("a", with(plain("a"), json!({"wait": 700})));
    let (answer, said) = client.answer_within(rlock_testing::PATIENCE, wanted);
    fails_as("unavailable", &answer);
    assert_within("the limit", began, limit, said.at);
    server.thaw();
    wait_until("what was sent has come", || eye.figure("grants") == 2);
    until_nothing_is_left(&mut eye, "a");
}
