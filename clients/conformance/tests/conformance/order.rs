//! One queue for all languages.

use crate::world::*;
use rlock_testing::{Reply, Server, start_waiting};

/// Clients of all languages that are tried, and one who has no client, wait for one lock, twice in turn. They are
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
    give_back(&mut eye, "a");
    let left = waits.len() as i64 + 1;
    for (served, (client, held, id)) in waits.into_iter().enumerate() {
        ok(client.answer(id));
        assert_eq!(eye.figure("waiters"), left - served as i64, "nobody else was served");
        ok(client.release(held));
    }
    assert_eq!(by_hand.receive(), Reply::Nil);
    by_hand.say("RLOCK.RELEASE a by-hand");
    ok(clients[0].answer(behind));
    ok(clients[0].release("behind"));
    until_nothing_is_left(&mut eye, "a");
}
