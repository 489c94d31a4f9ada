//! Connections that break, sessions that end, servers that restart: waiters go on waiting, and keep their places
//! if possible; and a release reports no more than is known.

use crate::losses::behind_a_network;
use crate::world::*;
use rlock_conformance::Adapter;
use rlock_testing::network::Order;
use rlock_testing::{Client, start_waiting, wait_until};
use serde_json::json;
use std::time::Duration;

const WAITERS: usize = 20;

/// All wait for one lock, each behind the one before.
fn queue(client: &Adapter, eye: &mut Client, key: &str) -> Vec<u64> {
    let waits = (0..WAITERS).map(|number| {
        let id = client.wants(&number.to_string(), plain(key));
        eye.until_waiting(number as i64 + 1);
        id
    });
    waits.collect()
}

/// All connections of a process are killed, three times, while twenty wait: their places are kept, so they are served in
/// their order, and before later waiters.
pub fn places_are_kept(world: &World) {
    let (server, mut eye, client) = world.with_taken("a");
    let waits = queue(&client, &mut eye, "a");
    let mut last = start_waiting(&server, "RLOCK.ACQUIRE a last 600000 WAIT 600000");
    kill_connections(&mut eye);
    until_attended(&mut eye);
    release_by_hand(&mut eye, "a");
    for (number, id) in waits.into_iter().enumerate() {
        ok(client.answer(id));
        if [5, 12].contains(&number) {
            kill_connections(&mut eye);
            until_attended(&mut eye);
        }
        assert_eq!(eye.figure("waiters"), (WAITERS - number) as i64, "none has come past number {number}");
        ok(client.release(&number.to_string()));
    }
    assert_eq!(last.receive(), rlock_testing::Reply::Nil);
}

/// Each connection is cut in the middle of the server's next reply, also of the grant: the grant is sent again.
pub fn answers_that_are_cut(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    for round in 0..20 {
        let held = round.to_string();
        take(&mut eye, "a");
        let waits = client.wants(&held, plain("a"));
        eye.until_waiting(1);
        network.obey(Order::CutMidReply);
        release_by_hand(&mut eye, "a");
        ok(client.answer(waits));
        network.obey(Order::Heal);
        ok(client.release(&held));
    }
    until_nothing_is_left(&mut eye, "a");
}

/// An operator ends the session by which all wait: they ask again.
pub fn a_session_that_is_ended(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let waits = client.wants("received", plain("a"));
    eye.until_waiting(1);
    release_by_hand(&mut eye, "a");
    ok(client.answer(waits));
    ok(client.release("received"));
    take(&mut eye, "a");
    all_ask_again(&client, &mut eye);
}

/// The same before the first event: there is no acknowledgement by which the server would notice.
pub fn a_session_that_is_ended_before_its_first_event(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    all_ask_again(&client, &mut eye);
}

fn all_ask_again(client: &Adapter, eye: &mut Client) {
    let waits = queue(client, eye, "a");
    let asked = eye.figure("waits");
    end_sessions(eye);
    wait_until("they have asked again", || eye.figure("waits") >= asked + WAITERS as i64);
    eye.until_waiting(WAITERS as i64);
    release_by_hand(eye, "a");
    all_are_served(client, waits);
    until_nothing_is_left(eye, "a");
}

/// The process is suspended until its session is gone, and its connections last. When the process goes on, it asks again.
pub fn a_waiter_that_is_suspended(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let waits = queue(&client, &mut eye, "a");
    client.freeze();
    wait_until("its session is gone", || eye.figure("sessions") == 0);
    client.thaw();
    eye.until_waiting(WAITERS as i64);
    release_by_hand(&mut eye, "a");
    all_are_served(&client, waits);
    until_nothing_is_left(&mut eye, "a");
}

/// The server restarts without its data: holders report the loss, and waiters ask again.
pub fn a_server_that_restarts_empty(world: &World) {
    let (server, mut eye, client) = world.with_taken("a");
    ok(client.acquire("held", with(plain("b"), json!({"lease": 600_000}))));
    let waits = queue(&client, &mut eye, "a");
    let port = server.port();
    let server = server.crash().port(port).start();
    all_are_served(&client, waits);
    // The client does not wait for the next renewal, which is minutes away.
    client.until_lost("held");
    fails_as("lost", &client.release("held"));
    until_nothing_is_left(&mut server.client(), "a");
}

/// All waits are served, in any order.
fn all_are_served(client: &Adapter, waits: Vec<u64>) {
    std::thread::scope(|scope| {
        for (number, id) in waits.into_iter().enumerate() {
            scope.spawn(move || {
                ok(client.answer(id));
                ok(client.release(&number.to_string()));
            });
        }
    });
}

/// The reply to a release is lost with its connection: whether the lock was held to the end is unknown.
pub fn a_release_without_an_answer(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({"lease": 3_600_000}));
    for taken_away in [false, true] {
        let held = taken_away.to_string();
        ok(client.acquire(&held, plain("a")));
        if taken_away {
            eye.say("RLOCK.BREAK a");
        }
        network.obey(Order::CutMidReply);
        fails_as("in-doubt", &client.release(&held));
        network.obey(Order::Heal);
        until_nothing_is_left(&mut eye, "a");
    }
}

/// The reply to a request for a lock is lost with its connection: the lock is held if the client says so, and otherwise
/// released as soon as there is a connection again.
pub fn an_acquire_without_an_answer(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({"lease": 3_600_000, "patience": 1_000}));
    ok(client.acquire("first", plain("a")));
    ok(client.release("first"));
    for round in 0..8 {
        let (held, wait) = (round.to_string(), if round % 2 == 0 { 0 } else { 300 });
        network.obey(Order::CutMidReply);
        if round >= 4 {
            network.obey(Order::Refuse);
        }
        let answer = client.acquire(&held, with(plain("a"), json!({"wait": wait})));
        network.obey(Order::Heal);
        match answer {
            Ok(_) => drop(ok(client.release(&held))),
            failed => fails_as("unavailable", &failed),
        }
        until_nothing_is_left(&mut eye, "a");
    }
}

/// A machine that vanishes delays the waiters behind it for some seconds: until its session has ended, and the short lease
/// of a grant that it did not read.
pub fn a_machine_that_vanishes(world: &World) {
    let (server, mut eye, network, gone) = behind_a_network(world, json!({}));
    take(&mut eye, "a");
    gone.wants("a", plain("a"));
    eye.until_waiting(1);
    let living = world.client_of(&server);
    let waits = living.wants("a", plain("a"));
    eye.until_waiting(2);
    Order::LOSE_ALL.into_iter().for_each(|order| network.obey(order));
    gone.kill();
    release_by_hand(&mut eye, "a");
    ok(living.answer_within(Duration::from_secs(6) + SOON, waits).0);
    ok(living.release("a"));
}
