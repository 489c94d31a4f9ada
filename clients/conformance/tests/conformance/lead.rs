//! `lead`: work that runs in one process at a time, for as long as any process wants to lead.

use crate::load::{assert_within, lateness_since};
use crate::losses::behind_a_network;
use crate::world::*;
use rlock_conformance::{Adapter, Saying};
use rlock_testing::network::{Order, Sender};
use rlock_testing::{PATIENCE, Server, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(3);

/// The longest pause before a client leads again, after an error or a loss.
const PAUSE: Duration = Duration::from_secs(5);

/// A client with that lease for its locks.
fn open(world: &World, server: &Server) -> Adapter {
    world.open(with(at(server.port()), json!({"lease": 3_000})))
}

pub fn lead(client: &Adapter) -> u64 {
    client.ask(json!({"do": "lead", "lock": "a"}))
}

/// The first of two clients works, and the second one waits.
fn two_lead(world: &World) -> (Server, rlock_testing::Client, [(Adapter, u64); 2]) {
    let (server, mut eye) = Server::with_client();
    let [first, second] = [open(world, &server), open(world, &server)];
    let leads = lead(&first);
    until_begun(&first, leads);
    let waits = lead(&second);
    eye.until_waiting(1);
    (server, eye, [(first, leads), (second, waits)])
}

fn until_turned(client: &Adapter, id: u64, times: usize) -> rlock_conformance::Said {
    client.until_turned(PATIENCE, id, times)
}

/// Gives up the lead, and returns when that was answered.
fn cancel(client: &Adapter, id: u64) {
    ok(client.asks(json!({"do": "cancel", "of": id})));
    fails_as("cancelled", &client.answer(id));
}

/// When the work of one turn ends, the client waits at the end of the queue, and the next one works: in turn, and never
/// two at a time.
pub fn all_take_turns(world: &World) {
    let (_server, mut eye, clients) = two_lead(world);
    for round in 0..5 {
        for place in 0..2 {
            let ((works, leads), (next, waits)) = (&clients[place], &clients[1 - place]);
            until_turned(works, *leads, 2 * round + 1);
            eye.until_waiting(1);
            let turned = 2 * (round + place);
            (turned > 0).then(|| until_turned(next, *waits, turned));
            assert_eq!(next.turns(*waits).len(), turned, "it works only in its turn");
            finish(works, *leads, "");
        }
    }
    for (client, id) in &clients {
        cancel(client, *id);
    }
    until_nothing_is_left(&mut eye, "a");
}

/// The only client that leads works again and again.
pub fn one_leads_alone(world: &World) {
    let (server, mut eye) = Server::with_client();
    let client = open(world, &server);
    let leads = lead(&client);
    for round in 0..10 {
        until_turned(&client, leads, 2 * round + 1);
        finish(&client, leads, "");
    }
    until_turned(&client, leads, 21);
    cancel(&client, leads);
    assert_eq!(client.turns(leads).len(), 22);
    until_nothing_is_left(&mut eye, "a");
}

/// The leader's process is killed: the other one works when the lease has ended on the server, not sooner and not later.
pub fn a_leader_that_is_killed(world: &World) {
    let (_server, mut eye, [(first, _), (second, waits)]) = two_lead(world);
    let holder = eye.hash("a")[0].0.clone();
    until_renewed(&mut eye, "a");
    let killed = Instant::now();
    first.kill();
    let end = until_lock_goes_from(&mut eye, "a", &holder);
    let began = until_turned(&second, waits, 1);
    assert!(began.at_unix_ms >= end, "{} before {end}", began.at_unix_ms);
    assert_within("the other one works", killed, LEASE, began.at);
    cancel(&second, waits);
    until_nothing_is_left(&mut eye, "a");
}

/// The lock is broken: the work is stopped within a third of the lease. The client leads again later, behind the next holder.
pub fn a_lock_that_is_broken(world: &World) {
    let (server, mut eye) = Server::with_client();
    let client = open(world, &server);
    let leads = lead(&client);
    until_turned(&client, leads, 1);
    let broken = Instant::now();
    eye.transaction(["RLOCK.BREAK a", "RLOCK.ACQUIRE a other 600000"]);
    let ended = until_turned(&client, leads, 2);
    assert_within("the work is stopped", broken, LEASE / 3, ended.at);
    eye.until_waiting(1);
    assert_within("it waits again", ended.at, PAUSE, Instant::now());
    release_by_hand(&mut eye, "a");
    until_turned(&client, leads, 3);
    cancel(&client, leads);
    until_nothing_is_left(&mut eye, "a");
}

/// The leader's process stalls for longer than its lease, and the other one works. When the process goes on, its work is
/// stopped, and it waits for its next turn.
pub fn a_leader_that_stalls(world: &World) {
    let (_server, mut eye, [(first, leads), (second, waits)]) = two_lead(world);
    first.freeze();
    until_turned(&second, waits, 1);
    let goes_on = Instant::now();
    first.thaw();
    assert_within("the work is stopped", goes_on, Duration::ZERO, until_turned(&first, leads, 2).at);
    eye.until_waiting(1);
    finish(&second, waits, "");
    until_turned(&second, waits, 2);
    until_turned(&first, leads, 3);
    for (client, id) in [(&first, leads), (&second, waits)] {
        cancel(client, id);
    }
    until_nothing_is_left(&mut eye, "a");
}

/// The server hears nothing of the leader any more: its work is stopped before the other one works.
pub fn a_leader_that_is_cut_off(world: &World) {
    let (server, mut eye, network, first) = behind_a_network(world, json!({"lease": 3_000}));
    let second = open(world, &server);
    let leads = lead(&first);
    until_turned(&first, leads, 1);
    let waits = lead(&second);
    eye.until_waiting(1);
    network.obey(Order::Lose(Sender::Client));
    let began = until_turned(&second, waits, 1);
    assert_within("the work is stopped", began.at, Duration::ZERO, until_turned(&first, leads, 2).at);
    network.obey(Order::Heal);
    eye.until_waiting(1);
    for (client, id) in [(&first, leads), (&second, waits)] {
        cancel(client, id);
    }
    until_nothing_is_left(&mut eye, "a");
}

/// The lead is given up while the work runs: the work is stopped, then the lock is free, and the other one works at once.
pub fn a_lead_that_is_given_up(world: &World) {
    let (_server, mut eye, [(first, leads), (second, waits)]) = two_lead(world);
    let given_up = Instant::now();
    cancel(&first, leads);
    let stopped = until_turned(&first, leads, 2);
    let began = until_turned(&second, waits, 1);
    assert_within("the other one works", given_up, SOON, began.at);
    let late = lateness_since(given_up);
    assert!(stopped.at <= began.at + late, "both work: {:?}", stopped.at - began.at);
    cancel(&second, waits);
    until_nothing_is_left(&mut eye, "a");
}

/// The lead is given up while it waits: it leaves the queue.
pub fn a_lead_that_is_given_up_while_it_waits(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let leads = lead(&client);
    eye.until_waiting(1);
    cancel(&client, leads);
    wait_until("it has left the queue", || eye.figure("waiters") == 0);
    release_by_hand(&mut eye, "a");
    until_nothing_is_left(&mut eye, "a");
    assert!(!has_begun(&client, leads));
}

/// The server restarts without its data, and is gone for a while: the work is stopped, and begins again when there is a server.
pub fn a_server_that_restarts(world: &World) {
    let (server, _eye) = Server::with_client();
    let client = open(world, &server);
    let leads = lead(&client);
    until_turned(&client, leads, 1);
    let port = server.port();
    let start = server.crash().port(port);
    until_turned(&client, leads, 2);
    let server = start.start();
    let started = Instant::now();
    let began = until_turned(&client, leads, 3);
    assert_within("it works again", started, PAUSE + SOON, began.at);
    cancel(&client, leads);
    until_nothing_is_left(&mut server.client(), "a");
}

/// No server answers for longer than the client waits for one: the lead goes on, and works when there is a server again.
pub fn a_server_that_is_gone_for_long(world: &World) {
    let (server, _eye) = Server::with_client();
    let client = world.open(with(at(server.port()), json!({"lease": 3_000, "patience": 3_000})));
    let leads = lead(&client);
    until_turned(&client, leads, 1);
    let port = server.port();
    let start = server.crash().port(port);
    until_turned(&client, leads, 2);
    for attempt in 0..2 {
        fails_as("unavailable", &client.acquire(&attempt.to_string(), plain("b")));
    }
    let _server = start.start();
    let started = Instant::now();
    assert_within("it works again", started, PAUSE + SOON, until_turned(&client, leads, 3).at);
    cancel(&client, leads);
}

/// An error that waiting does not remove ends the lead: a lock of another kind, or a right that is missing.
pub fn errors_that_stay(world: &World) {
    let server = Server::start();
    let mut eye = server.client();
    let client = open(world, &server);
    eye.say("RLOCK.RACQUIRE a other 600000");
    fails_as("wrong-kind", &client.answer(lead(&client)));
    eye.say("RLOCK.BREAK a");
    eye.say("ACL SETUSER app on >secret ~* &* +@all -rlock.acquire");
    let client = world.open(json!({"url": format!("redis://app:secret@127.0.0.1:{}", server.port())}));
    let leads = lead(&client);
    fails_as("no-right", &client.answer(leads));
    assert!(!has_begun(&client, leads));
}

/// A client that is closed stops the work, and leaves no lock and no waiter.
pub fn a_client_that_is_closed(world: &World) {
    let (_server, mut eye, [(first, leads), (second, waits)]) = two_lead(world);
    for (client, id) in [(&second, waits), (&first, leads)] {
        ok(client.asks(json!({"do": "close"})));
        fails_as("closed", &client.answer(id));
    }
    assert!(first.turns(leads).last().is_some_and(|it| matches!(it.what, Saying::Ended { .. })));
    assert_eq!((eye.figure("waiters"), eye.keys()), (0, vec![]));
}
