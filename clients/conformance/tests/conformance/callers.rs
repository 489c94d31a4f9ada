//! Callers that wait for a value while connections break, sessions end and servers restart: they keep their places if that
//! is possible, and each of them is answered.

use crate::losses::behind_a_network;
use crate::world::*;
use rlock_conformance::Adapter;
use rlock_testing::network::Order;
use rlock_testing::{Client, Reply, start_waiting, text, wait_until};
use serde_json::json;

const KEYS: usize = 20;

fn key(number: usize) -> String {
    format!("report:{number}")
}

/// The suite leads twenty keys by hand, and the client waits for the value of each.
fn wait_for_all(client: &Adapter, eye: &mut Client) -> Vec<u64> {
    let waits = (0..KEYS).map(|number| {
        lead_by_hand(eye, &key(number));
        let id = ask_once(client, &key(number), json!({}));
        eye.until_waiting(number as i64 + 1);
        id
    });
    waits.collect()
}

/// All values go to all callers: their own work never begins.
fn all_are_given(client: &Adapter, waits: Vec<u64>, eye: &mut Client) {
    (0..KEYS).for_each(|number| answer_by_hand(eye, &key(number), &number.to_string()));
    for (number, id) in waits.into_iter().enumerate() {
        is_given(&number.to_string(), client.answer(id));
        assert!(!has_begun(client, id));
    }
    until_nothing_is_left(eye, &key(0));
}

/// All connections of the process are killed, twice. Its callers keep their places: where the leader fails, one of them
/// works before a caller that came later. Where the leader answers, all get the value.
pub fn places_are_kept(world: &World) {
    let (server, mut eye, client) = world.with_client();
    let waits = wait_for_all(&client, &mut eye);
    let behind =
        [0, 1].map(|number| start_waiting(&server, &format!("RLOCK.ONCE {} last 600000 WAIT 600000", key(number))));
    for _ in 0..2 {
        kill_connections(&mut eye);
        until_attended(&mut eye);
        assert_eq!(eye.figure("waiters"), KEYS as i64 + 2);
    }
    let [mut failed, mut answered] = behind;
    assert_eq!(eye.run(&["RLOCK.RELEASE", &key(0), "other"]), Reply::Int(1));
    until_begun(&client, waits[0]);
    kill_connections(&mut eye);
    finish(&client, waits[0], "own");
    is_given("own", client.answer(waits[0]));
    assert_eq!(failed.receive(), text("own"));
    for (number, id) in waits.into_iter().enumerate().skip(1) {
        answer_by_hand(&mut eye, &key(number), "by hand");
        is_given("by hand", client.answer(id));
        assert!(!has_begun(&client, id));
    }
    assert_eq!(answered.receive(), text("by hand"));
    until_nothing_is_left(&mut eye, &key(0));
}

/// Each connection is cut in the middle of the next reply, which is the news of the answer or the value itself.
pub fn answers_that_are_cut(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({}));
    for round in 0..20 {
        let key = key(round);
        lead_by_hand(&mut eye, &key);
        let waits = ask_once(&client, &key, json!({}));
        eye.until_waiting(1);
        network.obey(Order::CutMidReply);
        answer_by_hand(&mut eye, &key, "cut");
        is_given("cut", client.answer(waits));
        network.obey(Order::Heal);
        assert!(!has_begun(&client, waits));
    }
    until_nothing_is_left(&mut eye, "report:0");
}

/// An operator ends the session: its callers ask again.
pub fn a_session_that_is_ended(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let waits = wait_for_all(&client, &mut eye);
    let asked = eye.figure("waits");
    end_sessions(&mut eye);
    wait_until("they have asked again", || eye.figure("waits") >= asked + KEYS as i64);
    eye.until_waiting(KEYS as i64);
    all_are_given(&client, waits, &mut eye);
}

/// The process stalls until its session is gone, and meanwhile half of the answers are stored. When the process goes on,
/// all its callers are answered.
pub fn a_caller_that_stalls(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let waits = wait_for_all(&client, &mut eye);
    client.freeze();
    wait_until("its session is gone", || eye.figure("sessions") == 0);
    (0..KEYS / 2).for_each(|number| answer_by_hand(&mut eye, &key(number), "meanwhile"));
    client.thaw();
    eye.until_waiting((KEYS - KEYS / 2) as i64);
    (KEYS / 2..KEYS).for_each(|number| answer_by_hand(&mut eye, &key(number), "afterwards"));
    for (number, id) in waits.into_iter().enumerate() {
        is_given(if number < KEYS / 2 { "meanwhile" } else { "afterwards" }, client.answer(id));
        assert!(!has_begun(&client, id));
    }
    until_nothing_is_left(&mut eye, "report:0");
}

/// The server restarts without any data: the leader's work is stopped, and one of its callers works.
pub fn a_server_that_restarts(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let next = world.client_of(&server);
    let leads = begin_once(&leader, "a", json!({"lease": 600_000}));
    let waits = ask_once(&next, "a", json!({}));
    eye.until_waiting(1);
    let port = server.port();
    let server = server.crash().port(port).start();
    // The client does not wait for the next renewal, which is minutes away.
    fails_as("lost", &leader.answer(leads));
    until_begun(&next, waits);
    let again = ask_once(&leader, "a", json!({}));
    server.client().until_waiting(1);
    finish(&next, waits, "after the restart");
    is_given("after the restart", next.answer(waits));
    is_given("after the restart", leader.answer(again));
    until_nothing_is_left(&mut server.client(), "a");
}

/// The answer is gone before the process has fetched it: one of its callers works, and the others get that value.
pub fn an_answer_that_is_gone_at_once(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    lead_by_hand(&mut eye, "a");
    let both = [(&first, ask_once(&first, "a", json!({}))), (&second, ask_once(&second, "a", json!({})))];
    eye.until_waiting(2);
    eye.transaction(["RLOCK.ANSWER a other gone KEEP 600000", "DEL rlock_answer:{a}"]);
    wait_until("a caller works", || both.iter().any(|(client, id)| has_begun(client, *id)));
    eye.until_waiting(1);
    let (works, waits) = if has_begun(both[0].0, both[0].1) { (both[0], both[1]) } else { (both[1], both[0]) };
    assert!(!has_begun(waits.0, waits.1));
    finish(works.0, works.1, "again");
    is_given("again", works.0.answer(works.1));
    is_given("again", waits.0.answer(waits.1));
    assert!(!has_begun(waits.0, waits.1));
    until_nothing_is_left(&mut eye, "a");
}

/// The answer is gone, and another leader works now: the caller waits again, for the answer of that leader.
pub fn an_answer_that_another_leader_replaces(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    lead_by_hand(&mut eye, "a");
    let waits = ask_once(&client, "a", json!({}));
    eye.until_waiting(1);
    let leads_again = ["RLOCK.ANSWER a other gone KEEP 600000", "DEL rlock_answer:{a}", "RLOCK.ONCE a other 600000"];
    assert_eq!(eye.transaction(leads_again)[2], Reply::Nil);
    eye.until_waiting(1);
    answer_by_hand(&mut eye, "a", "again");
    is_given("again", client.answer(waits));
    assert!(!has_begun(&client, waits));
    until_nothing_is_left(&mut eye, "a");
}

/// Callers of a client that is closed are answered with `closed`. Work that runs is stopped, and its lock is free.
pub fn a_client_that_is_closed(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    lead_by_hand(&mut eye, "a");
    let waits = ask_once(&client, "a", json!({}));
    eye.until_waiting(1);
    let leads = begin_once(&client, "b", json!({}));
    ok(client.asks(json!({"do": "close"})));
    fails_as("closed", &client.answer(waits));
    // `closed` is the client's word, and `cancelled` is the work's own.
    let answer = client.answer(leads);
    let is_closed = answer.as_ref().is_err_and(|it| ["closed", "cancelled"].contains(&it.word.as_str()));
    assert!(is_closed, "{answer:?}");
    assert_eq!((eye.figure("waiters"), eye.keys()), (0, vec!["a".to_owned()]));
}
