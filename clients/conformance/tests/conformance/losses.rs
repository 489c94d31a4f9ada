//! A hold is kept for as long as possible. When it is no longer guaranteed, the program learns of that before the server
//! could grant the lock to another holder.

use crate::load::assert_within;
use crate::world::*;
use rlock_conformance::{Adapter, Saying};
use rlock_testing::network::{Order, Proxy, Sender};
use rlock_testing::{Client, Server, unix_ms, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A network in front of a server, and a client that reaches the server only through the network.
pub fn behind_a_network(world: &World, settings: Value) -> (Server, Client, Proxy, Adapter) {
    let (server, eye) = Server::with_client();
    let network = Proxy::start().expect("a port and a thread");
    network.obey(Order::Lead(server.port()));
    let client = world.open(with(at(network.port), settings));
    (server, eye, network, client)
}

/// A short lease is kept while all of the program's own code is held up for three times as long. The lease is as short as a
/// busy machine allows.
pub fn a_program_that_is_held_up_keeps_its_lock(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let held = ok(client.acquire("a", with(plain("a"), json!({"lease": 2_000}))));
    let blocks = client.ask(json!({"do": "block", "for": 6_000}));
    let is_over = || client.said().iter().any(|it| matches!(it.what, Saying::Answer { id, .. } if id == blocks));
    wait_until("the program goes on", || {
        let hash = eye.hash("a");
        assert!(hash.len() == 1 && Some(hash[0].0.as_str()) == held["holder"].as_str(), "it is lost: {hash:?}");
        is_over()
    });
    ok(client.answer(blocks));
    assert!(!client.look("a").is_lost);
    ok(client.release("a"));
    assert!(!client.said().iter().any(|it| matches!(it.what, Saying::Lost { .. })));
}

/// An operator breaks a lock: its holder learns of it within a third of the lease, and takes nothing from the next holder.
pub fn a_lock_that_is_broken(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    ok(client.acquire("a", with(plain("a"), json!({"lease": 3_000}))));
    let broken = Instant::now();
    eye.say("RLOCK.BREAK a");
    take(&mut eye, "a");
    let received = client.until_lost("a");
    assert_within("the loss is reported", broken, Duration::from_secs(1), received.at);
    assert!(client.look("a").is_lost);
    fails_as("lost", &client.release("a"));
    release_by_hand(&mut eye, "a");
}

/// The server says why a lock is lost. The client passes that on: as news to a holder with a renewed lease, and as the
/// answer to a release that comes before the next renewal.
pub fn why_it_is_lost(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let ways = [("RLOCK.BREAK {}", "not-held"), ("DEL {}", "not-held"), ("SET {} data", "overwritten")];
    let keys: Vec<_> = (0..ways.len()).map(|way| [format!("held:{way}"), format!("released:{way}")]).collect();
    for [held, released] in &keys {
        ok(client.acquire(held, with(plain(held), json!({"lease": 3_000}))));
        ok(client.acquire(released, with(plain(released), json!({"lease": 600_000}))));
    }
    for ((command, reason), [held, released]) in ways.iter().zip(&keys) {
        eye.say(&command.replace("{}", held));
        eye.say(&command.replace("{}", released));
        is_lost_by(reason, &client.release(released));
    }
    for ((_, reason), [held, _]) in ways.iter().zip(&keys) {
        is_reported_lost_by(reason, &client, held);
        is_lost_by(reason, &client.release(held));
    }
}

/// The server is suspended. No client guarantees the lock when its lease has ended there.
pub fn a_frozen_server(world: &World) {
    let (server, mut eye, client) = world.with_client();
    ok(client.acquire("a", with(plain("a"), json!({"lease": 3_000}))));
    let end = until_renewed(&mut eye, "a");
    server.freeze();
    until_lost_by(end, &client);
    is_reported_lost_by("not-renewed", &client, "a");
    until_past(end);
    server.thaw();
    is_lost_by("not-renewed", &client.release("a"));
    until_nothing_is_left(&mut eye, "a");
}

/// The server does not hear the client any more.
pub fn a_network_that_loses_requests(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    ok(client.acquire("a", with(plain("a"), json!({"lease": 3_000}))));
    let end = until_renewed(&mut eye, "a");
    network.obey(Order::Lose(Sender::Client));
    until_lost_by(end, &client);
}

/// Renewals arrive, but their replies do not: so the end of the lease counts from the last reply that came.
pub fn a_network_that_loses_answers(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    ok(client.acquire("a", with(plain("a"), json!({"lease": 3_000}))));
    until_renewed(&mut eye, "a");
    let silent = Instant::now();
    network.obey(Order::Lose(Sender::Server));
    guarantees_no_more_than(&client, "a", || eye.expiry("a"));
    assert_within("the loss is reported", silent, Duration::from_secs(3), client.until_lost("a").at);
}

/// Replies come a second late. A lease counts from before its request, with each renewal as well: a client that counts from
/// the reply guarantees a lock that others can have.
pub fn a_slow_network(world: &World) {
    late_answers(world, json!({"lease": 5_000}));
}

pub fn a_slow_network_and_a_fixed_lease(world: &World) {
    late_answers(world, json!({"fixed": 5_000}));
}

fn late_answers(world: &World, lease: Value) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    // This opens the connection.
    ok(client.acquire("before", plain("a")));
    ok(client.release("before"));
    network.obey(Order::Delay(Sender::Server, Duration::from_secs(1)));
    ok(client.acquire("a", with(plain("a"), lease)));
    // Through two renewals, if there are any. Then the server hears nothing from the client any more, until the lock is lost.
    let (renewed, mut is_cut_off) = (Instant::now() + Duration::from_secs(4), false);
    guarantees_no_more_than(&client, "a", || {
        if !is_cut_off && Instant::now() > renewed {
            is_cut_off = true;
            network.obey(Order::Lose(Sender::Client));
        }
        eye.expiry("a")
    });
    client.until_lost("a");
}

/// The same for a grant after a wait: the client does not know when it was made. Nothing arrives from the client any more, so
/// no renewal can make up for it.
pub fn a_grant_that_arrives_late(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    take(&mut eye, "a");
    network.obey(Order::Delay(Sender::Server, Duration::from_millis(400)));
    let waits = client.wants("a", with(plain("a"), json!({"lease": 5_000})));
    eye.until_waiting(1);
    until_attended(&mut eye);
    network.obey(Order::Lose(Sender::Client));
    release_by_hand(&mut eye, "a");
    ok(client.answer(waits));
    guarantees_no_more_than(&client, "a", || eye.expiry("a"));
    client.until_lost("a");
}

/// The process is suspended for longer than its lease, and another holder gets the lock. When it goes on, it knows
/// of the loss, and the work that ran under another lock is stopped.
pub fn a_process_that_is_suspended(world: &World) {
    let (server, mut eye, client) = world.with_client();
    let other = world.client_of(&server);
    ok(client.acquire("a", with(plain("a"), json!({"lease": 1_500}))));
    let work = client.ask(json!({"do": "run", "held": "b", "lock": "b", "lease": 1_500}));
    until_begun(&client, work);
    let waits = other.wants("a", plain("a"));
    eye.until_waiting(1);
    client.freeze();
    ok(other.answer(waits));
    wait_until("that one is over as well", || !exists(&mut eye, "b"));
    let before = client.said().len();
    let look = client.ask(json!({"do": "look", "held": "a"}));
    let goes_on = Instant::now();
    client.thaw();
    let look = ok(client.answer(look));
    assert!(look["lost"] == true && look["remaining"] == 0, "{look}");
    assert_within("the loss is reported", goes_on, Duration::ZERO, client.until_lost("a").at);
    let (answer, stopped) = client.answer_within(rlock_testing::PATIENCE, work);
    fails_as("lost", &answer);
    assert_within("the work is stopped", goes_on, Duration::ZERO, stopped.at);
    let since = &client.said()[before..];
    assert!(since.len() <= 4, "it knows of nothing but these losses: {since:?}");
    fails_as("lost", &client.release("a"));
    ok(other.release("a"));
}

/// Work runs under a lock, with its token, and the lock is released when the work is done.
pub fn work_that_is_done(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let work = client.ask(json!({"do": "run", "held": "a", "lock": "a", "fenced": true}));
    let token = client.until_said("it works", SOON, |said| match said.what {
        Saying::Began { id, token } if id == work => token,
        _ => None,
    });
    assert_eq!(eye.run(&["GET", "redisson_lock_token:{a}"]).as_text(), token.to_string());
    assert!(exists(&mut eye, "a"));
    ok(client.asks(json!({"do": "finish", "of": work})));
    ok(client.answer(work));
    assert!(!exists(&mut eye, "a"));
}

/// Work is stopped when its lock is lost.
pub fn work_that_is_stopped(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let work = begin_work(&client, 3_000);
    let broken = Instant::now();
    eye.say("RLOCK.BREAK a");
    let (answer, stopped) = client.answer_within(rlock_testing::PATIENCE, work);
    is_lost_by("not-held", &answer);
    assert_within("it is stopped", broken, Duration::from_secs(1), stopped.at);
}

/// Work ended while its lease was still guaranteed, and the release gets no answer: its connection breaks, or the server
/// is frozen. The work was protected and succeeds, and the release goes on in the background. The lock is lost only if
/// the server says that it is not held.
pub fn work_that_ends_in_doubt(world: &World) {
    let (server, mut eye, network, client) = behind_a_network(world, json!({"patience": 2_000}));
    let finish = |work| ok(client.asks(json!({"do": "finish", "of": work})));
    let work = begin_work(&client, 600_000);
    network.obey(Order::CutMidReply);
    finish(work);
    ok(client.answer(work));
    network.obey(Order::Heal);
    until_nothing_is_left(&mut eye, "a");

    let work = begin_work(&client, 600_000);
    server.freeze();
    finish(work);
    ok(client.answer(work));
    server.thaw();
    until_nothing_is_left(&mut eye, "a");

    let work = begin_work(&client, 600_000);
    eye.say("RLOCK.BREAK a");
    finish(work);
    is_lost_by("not-held", &client.answer(work));
}

/// Work under the lock `a` with this lease, which has begun.
fn begin_work(client: &Adapter, lease: u64) -> u64 {
    let work = client.ask(json!({"do": "run", "held": "a", "lock": "a", "lease": lease}));
    until_begun(client, work);
    work
}

/// Nothing renews it from now on, so its end on the server is known.
fn until_lost_by(end: i64, client: &Adapter) {
    let left = Duration::from_millis(u64::try_from(end - unix_ms()).expect("it was renewed right now"));
    let now = Instant::now();
    assert!(!client.look("a").is_lost, "given up with no need");
    guarantees_no_more_than(client, "a", || end);
    assert_within("the loss is reported", now, left, client.until_lost("a").at);
}
