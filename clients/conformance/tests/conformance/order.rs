//! One queue for all languages.

use crate::detached::{adopt, text_of};
use crate::lead::lead;
use crate::world::*;
use rlock_conformance::Adapter;
use rlock_testing::{PATIENCE, Reply, Server, start_waiting, text, wait_until};
use serde_json::json;

/// Clients of all languages under test, and one without a client library, wait for one lock, twice in turn. They are
/// served in exactly the order in which they came.
pub fn all_languages_wait_in_one_queue(world: &World) {
    let server = Server::start();
    let mut eye = server.client();
    take(&mut eye, "a");
    let clients: Vec<_> = world.all.iter().map(|tried| tried.open(at(server.port()))).collect();
    let mut waits = Vec::new();
    for round in ["first", "second"] {
        for client in &clients {
            waits.push((client, round, client.wants(round, plain("a"))));
            eye.until_waiting(waits.len() as i64);
        }
    }
    let mut by_hand = start_waiting(&server, "RLOCK.ACQUIRE a by-hand 600000 WAIT 600000");
    let behind = clients[0].wants("behind", plain("a"));
    eye.until_waiting(waits.len() as i64 + 2);
    release_by_hand(&mut eye, "a");
    let left = waits.len() as i64 + 1;
    for (served, (client, held, id)) in waits.into_iter().enumerate() {
        ok(client.answer(id));
        assert_eq!(eye.figure("waiters"), left - served as i64, "no other was served");
        ok(client.release(held));
    }
    assert_eq!(by_hand.receive(), Reply::Nil);
    by_hand.say("RLOCK.RELEASE a by-hand");
    ok(clients[0].answer(behind));
    ok(clients[0].release("behind"));
    until_nothing_is_left(&mut eye, "a");
}

/// A client of each language that has all of these requests, and another one of the first language.
fn clients_with(world: &World, needs: &[&str], server: &Server) -> Vec<Adapter> {
    let has_all = |tried: &&Tried| !needs.iter().any(|need| tried.lacks(need));
    let all: Vec<_> = world.all.iter().filter(has_all).collect();
    all.iter().chain(all.first()).map(|tried| tried.open(at(server.port()))).collect()
}

/// A caller of each language works in its turn, while the callers of all others and one without a client wait: all get its
/// value. The work of the first caller fails, so the second one works.
pub fn all_languages_get_one_value(world: &World) {
    let (server, mut eye) = Server::with_client();
    let clients = clients_with(world, &["once", "forget"], &server);
    for (place, leader) in clients.iter().enumerate() {
        let (key, value) = (format!("report:{place}"), format!("{place} €"));
        let fails = begin_once(leader, &key, json!({}));
        let mut waits = Vec::new();
        for number in 1..=clients.len() {
            let client = &clients[(place + number) % clients.len()];
            waits.push((client, ask_once(client, &key, json!({}))));
            // The last one shares the request of the one that leads.
            eye.until_waiting(number.min(clients.len() - 1) as i64);
        }
        let mut by_hand = start_waiting(&server, &format!("RLOCK.ONCE {key} by-hand 600000 WAIT 600000"));
        ok(leader.asks(json!({"do": "fail", "of": fails})));
        fails_as("failed", &leader.answer(fails));
        until_begun(waits[0].0, waits[0].1);
        finish(waits[0].0, waits[0].1, &value);
        for (client, id) in &waits {
            is_given(&value, client.answer(*id));
        }
        assert_eq!(by_hand.receive(), text(&value));
        assert!(waits[1..].iter().all(|(client, id)| !has_begun(client, *id)));
        ok(leader.asks(json!({"do": "forget", "once": key})));
        until_nothing_is_left(&mut eye, &key);
    }
    assert_eq!(eye.keys(), [""; 0]);
}

/// A thousand callers in all languages ask for one value: one of them works, and each process asks the server as often as one
/// caller would.
pub fn a_thousand_callers_of_one_value(world: &World) {
    let (server, mut eye) = Server::with_client();
    let clients = clients_with(world, &["once"], &server);
    let leads = begin_once(&clients[0], "a", json!({}));
    let callers: Vec<_> = (0..1_000).map(|number| &clients[number % clients.len()]).collect();
    let asked: Vec<_> = callers.iter().map(|client| ask_once(client, "a", json!({}))).collect();
    eye.until_waiting(clients.len() as i64 - 1);
    finish(&clients[0], leads, "value");
    is_given("value", clients[0].answer(leads));
    for (client, id) in callers.iter().zip(asked) {
        is_given("value", client.answer(id));
        assert!(!has_begun(client, id));
    }
    // Each asks to try, to wait, and to get the value when its event has come.
    let most = 3 * clients.len() as u64;
    assert!(calls(&mut eye, "rlock.once") <= most, "{} requests", calls(&mut eye, "rlock.once"));
}

/// Each language detaches a lock, and the next one adopts it, round to the first. Each keeps it alive, and the last one
/// releases it.
pub fn a_lock_goes_through_all_languages(world: &World) {
    let (server, mut eye) = Server::with_client();
    let clients = clients_with(world, &["adopt", "detach"], &server);
    let locks = [("plain €/", json!({"lock": "plain €/", "fenced": true})), ("p", json!({"permit": "p", "limit": 2}))];
    for (key, lock) in locks {
        let held = ok(clients[0].acquire(key, with(lock, json!({"lease": 2_000}))));
        for place in 0..clients.len() {
            let text = text_of(&clients[place], key, json!({}));
            let adopted = ok(adopt(&clients[(place + 1) % clients.len()], key, &text));
            assert_eq!(adopted, held);
            until_renewed(&mut eye, key);
        }
        ok(clients[0].release(key));
        until_nothing_is_left(&mut eye, key);
    }
}

/// All languages lead one key: each works in the order in which they came, and again in that order.
pub fn all_languages_lead_in_turn(world: &World) {
    let (server, mut eye) = Server::with_client();
    let clients = clients_with(world, &["lead"], &server);
    let mut leads = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        leads.push((client, lead(client)));
        wait_until("it leads or waits", || exists(&mut eye, "a") && eye.figure("waiters") == place as i64);
    }
    for round in 0..2 {
        for (client, id) in &leads {
            client.until_turned(PATIENCE, *id, 2 * round + 1);
            eye.until_waiting(leads.len() as i64 - 1);
            finish(client, *id, "");
        }
    }
    for (client, id) in leads {
        ok(client.asks(json!({"do": "cancel", "of": id})));
        fails_as("cancelled", &client.answer(id));
    }
    until_nothing_is_left(&mut eye, "a");
}
