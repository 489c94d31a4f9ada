//! Leaders that do not answer: their work fails or is stopped, their process dies or stalls, their lock is lost. The next
//! caller works, no sooner than the lock is free, and no later than the lease ends.

use crate::load::assert_within;
use crate::losses::behind_a_network;
use crate::world::*;
use rlock_conformance::Adapter;
use rlock_testing::network::{Order, Sender};
use rlock_testing::{Client, PATIENCE, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(2);

fn short_lease() -> Value {
    json!({"lease": 2_000})
}

fn fail(client: &Adapter, of: u64) {
    ok(client.asks(json!({"do": "fail", "of": of})));
}

/// That work runs to its end, and its value is stored.
fn works_to_the_end(client: &Adapter, id: u64, eye: &mut Client) {
    until_begun(client, id);
    finish(client, id, "in the end");
    is_given("in the end", client.answer(id));
    assert_eq!(stored(eye, "a").as_deref(), Some("in the end"));
    until_nothing_is_left(eye, "a");
}

/// Work that fails is an error of its own caller alone, and stores nothing. The next caller works, whether it is of
/// another process or of the same one.
pub fn work_that_fails(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let leads = begin_once(&first, "a", json!({}));
    let waits = ask_once(&second, "a", json!({}));
    eye.until_waiting(1);
    let beside = ask_once(&second, "a", json!({}));
    let failed = Instant::now();
    fail(&first, leads);
    fails_as("failed", &first.answer(leads));
    assert_within("the next one works", failed, SOON, until_begun(&second, waits).at);
    assert!(!has_begun(&second, beside));
    assert_eq!(stored(&mut eye, "a"), None);
    fail(&second, waits);
    fails_as("failed", &second.answer(waits));
    works_to_the_end(&second, beside, &mut eye);
}

/// Ten callers of one process, and the work of nine fails: the work runs ten times, one at a time.
pub fn each_caller_works_until_one_succeeds(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let mut left: Vec<_> = (0..10).map(|_| ask_once(&client, "a", json!({}))).collect();
    for _ in 0..9 {
        let working = |left: &[u64]| left.iter().copied().filter(|id| has_begun(&client, *id)).collect::<Vec<_>>();
        wait_until("the next caller works", || !working(&left).is_empty());
        let works = working(&left);
        assert_eq!(works.len(), 1, "callers that work at the same time");
        left.retain(|id| *id != works[0]);
        fail(&client, works[0]);
        fails_as("failed", &client.answer(works[0]));
    }
    works_to_the_end(&client, left[0], &mut eye);
}

/// A caller gives up while its work runs: the work is stopped, and the next caller works at once.
pub fn work_that_is_given_up(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let leads = begin_once(&first, "a", json!({}));
    let waits = ask_once(&second, "a", json!({}));
    eye.until_waiting(1);
    let given_up = Instant::now();
    ok(first.asks(json!({"do": "cancel", "of": leads})));
    fails_as("cancelled", &first.answer(leads));
    assert_within("the next one works", given_up, SOON, until_begun(&second, waits).at);
    works_to_the_end(&second, waits, &mut eye);
}

/// The leader's process is killed before it has heard that it leads. Its lease runs on the server, and ends.
pub fn a_leader_that_is_killed_before_its_work(world: &World) {
    let (server, mut eye, network, leader) = behind_a_network(world, json!({}));
    let next = world.client_of(&server);
    // This opens the connection.
    ok(leader.acquire("before", with(plain("before"), short_lease())));
    network.obey(Order::Lose(Sender::Server));
    let leads = ask_once(&leader, "a", short_lease());
    wait_until("the leader has the lock", || exists(&mut eye, "a"));
    next_works_after_the_death_of(&leader, &next, &mut eye);
    assert!(!has_begun(&leader, leads));
}

/// It is killed in the middle of its work, after a renewal.
pub fn a_leader_that_is_killed_in_its_work(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    begin_once(&leader, "a", short_lease());
    until_renewed(&mut eye, "a");
    next_works_after_the_death_of(&leader, &next, &mut eye);
}

/// It is killed when its work has ended, and its answer does not reach the server.
pub fn a_leader_that_is_killed_before_it_answers(world: &World) {
    let (server, mut eye, network, leader) = behind_a_network(world, json!({}));
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", short_lease());
    network.obey(Order::Lose(Sender::Client));
    finish(&leader, leads, "never stored");
    next_works_after_the_death_of(&leader, &next, &mut eye);
}

/// It is killed right after the server has read its answer: the other callers get it, and none works again.
pub fn a_leader_that_is_killed_after_it_has_answered(world: &World) {
    let (server, mut eye, network, leader) = behind_a_network(world, json!({}));
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", short_lease());
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    network.obey(Order::Lose(Sender::Server));
    finish(&leader, leads, "received");
    wait_until("the answer is stored", || stored(&mut eye, "a").is_some());
    leader.kill();
    is_given("received", next.answer(waits));
    assert!(!has_begun(&next, waits));
    until_nothing_is_left(&mut eye, "a");
}

/// Two callers of another process wait. One of them works when the lease has ended on the server: not sooner, and not
/// much later.
fn next_works_after_the_death_of(leader: &Adapter, next: &Adapter, eye: &mut Client) {
    let holder = eye.hash("a")[0].0.clone();
    let waits = ask_once(next, "a", json!({}));
    eye.until_waiting(1);
    let beside = ask_once(next, "a", json!({}));
    let killed = Instant::now();
    leader.kill();
    let end = until_lock_goes_from(eye, "a", &holder);
    let began = until_begun(next, waits);
    assert!(began.at_unix_ms >= end, "{} before {end}", began.at_unix_ms);
    assert_within("the next caller works", killed, LEASE, began.at);
    assert_eq!(stored(eye, "a"), None);
    finish(next, waits, "in the end");
    is_given("in the end", next.answer(waits));
    is_given("in the end", next.answer(beside));
    assert!(!has_begun(next, beside));
    until_nothing_is_left(eye, "a");
}

/// An operator breaks the lock: the work is stopped and its caller gets the loss. Nothing is stored, and the next
/// caller works.
pub fn a_lock_that_is_broken(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", json!({"lease": 3_000}));
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    let broken = Instant::now();
    eye.say("RLOCK.BREAK a");
    let (answer, stopped) = leader.answer_within(PATIENCE, leads);
    is_lost_by("not-held", &answer);
    assert_within("the work is stopped", broken, Duration::from_secs(1), stopped.at);
    assert_eq!(stored(&mut eye, "a"), None);
    works_to_the_end(&next, waits, &mut eye);
}

/// The lock is broken, and the work ends before the leader has noticed: its answer is refused. The same if the next caller
/// works already, and its value is the only one.
pub fn work_that_ends_after_its_lock_is_broken(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    for has_successor in [false, true] {
        let leads = begin_once(&leader, "a", json!({"lease": 600_000}));
        let waits = has_successor.then(|| ask_once(&next, "a", json!({})));
        eye.until_waiting(i64::from(has_successor));
        eye.say("RLOCK.BREAK a");
        waits.iter().for_each(|waits| _ = until_begun(&next, *waits));
        finish(&leader, leads, "too late");
        is_lost_by("not-held", &leader.answer(leads));
        assert_eq!(stored(&mut eye, "a"), None);
        if let Some(waits) = waits {
            works_to_the_end(&next, waits, &mut eye);
        }
    }
}

/// If the leader of a process loses the lock, its callers ask again: one of them works.
pub fn callers_next_to_a_leader_that_loses(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let leads = begin_once(&client, "a", json!({"lease": 600_000}));
    let beside = ask_once(&client, "a", json!({}));
    ok(client.asks(json!({"do": "block", "for": 0})));
    eye.say("RLOCK.BREAK a");
    finish(&client, leads, "too late");
    is_lost_by("not-held", &client.answer(leads));
    works_to_the_end(&client, beside, &mut eye);
}

/// The leader's process stalls for longer than its lease, and another caller works. When the process goes on, its work
/// is stopped, and its value is not stored.
pub fn a_leader_that_stalls(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", short_lease());
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    leader.freeze();
    until_begun(&next, waits);
    let end = leader.ask(json!({"do": "finish", "of": leads, "value": "too late"}));
    leader.thaw();
    fails_as("lost", &leader.answer(leads));
    ok(leader.answer(end));
    assert_eq!(stored(&mut eye, "a"), None);
    works_to_the_end(&next, waits, &mut eye);
}

/// The server no longer hears the leader: its caller gets the loss, and the next caller works.
pub fn a_leader_that_is_cut_off(world: &World) {
    let (server, mut eye, network, leader) = behind_a_network(world, json!({"patience": 1_500}));
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", short_lease());
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    network.obey(Order::Lose(Sender::Client));
    is_lost_by("not-renewed", &leader.answer(leads));
    works_to_the_end(&next, waits, &mut eye);
}

/// The reply to the answer is lost, and the answer is gone when the client asks again: whether it was stored is
/// unknown. The leader's caller gets the value of its work, which was protected. The other callers of the process do not
/// get it: one of them works.
pub fn callers_next_to_an_answer_in_doubt(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    let leads = begin_once(&client, "a", json!({"lease": 600_000}));
    let beside = ask_once(&client, "a", json!({}));
    ok(client.asks(json!({"do": "block", "for": 0})));
    network.obey(Order::CutMidReply);
    network.obey(Order::Refuse);
    let before = connections(&mut eye);
    finish(&client, leads, "in doubt");
    wait_until("the answer is stored", || stored(&mut eye, "a").is_some());
    wait_until("the reply is cut", || {
        let now = connections(&mut eye);
        before.iter().any(|it| !now.contains(it))
    });
    assert_eq!(eye.run(&["DEL", &stored_at("a")]).as_int(), 1);
    network.obey(Order::Heal);
    is_given("in doubt", client.answer(leads));
    works_to_the_end(&client, beside, &mut eye);
}

/// The server stalls while the work ends. The work was protected: its caller gets the value, and the other callers get it
/// when the server goes on.
pub fn an_answer_to_a_server_that_stalls(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", json!({"lease": 600_000}));
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    server.freeze();
    finish(&leader, leads, "in the end");
    ok(leader.asks(json!({"do": "block", "for": 0})));
    server.thaw();
    is_given("in the end", leader.answer(leads));
    is_given("in the end", next.answer(waits));
    assert!(!has_begun(&next, waits));
    until_nothing_is_left(&mut eye, "a");
}

/// The reply to the answer is lost, and whether the answer arrived is unknown at first: the leader's caller gets the value
/// of its own work, and the answer is stored once.
pub fn an_answer_without_a_reply(world: &World) {
    let (server, mut eye, network, leader) = behind_a_network(world, json!({}));
    let next = world.client_of(&server);
    for (key, order) in [("arrives", Order::CutMidReply), ("is lost", Order::Lose(Sender::Client))] {
        let leads = begin_once(&leader, key, json!({"lease": 600_000}));
        let beside = ask_once(&leader, key, json!({}));
        ok(leader.asks(json!({"do": "block", "for": 0})));
        let waits = ask_once(&next, key, json!({}));
        eye.until_waiting(1);
        network.obey(order);
        finish(&leader, leads, key);
        ok(leader.asks(json!({"do": "block", "for": 0})));
        if matches!(order, Order::CutMidReply) {
            wait_until("the answer is stored", || stored(&mut eye, key).is_some());
        }
        network.obey(Order::Heal);
        is_given(key, leader.answer(leads));
        is_given(key, next.answer(waits));
        is_given(key, leader.answer(beside));
        assert!(!has_begun(&next, waits) && !has_begun(&leader, beside));
        until_nothing_is_left(&mut eye, key);
    }
}

/// No server can be reached when the work ends. The work was protected: its caller gets the value.
pub fn an_answer_that_no_server_gets(world: &World) {
    let (_server, mut eye, network, leader) = behind_a_network(world, json!({}));
    let leads = begin_once(&leader, "a", json!({"lease": 600_000}));
    network.obey(Order::Refuse);
    kill_connections(&mut eye);
    finish(&leader, leads, "for me alone");
    is_given("for me alone", leader.answer(leads));
    network.obey(Order::Heal);
    wait_until("the lock is free", || !exists(&mut eye, "a"));
}
