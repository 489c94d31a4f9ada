//! Many waits of one process take no more connections than few, and the client acknowledges all events.

use crate::world::*;
use rlock_conformance::Saying;
use rlock_testing::{PATIENCE, wait_until};
use std::collections::HashMap;

const WAITS: usize = 1_000;
const LOCKS: usize = 50;

/// A thousand waits on fifty locks: all are served, by as few connections as always. The connections are those of all
/// clients by TCP, and this process is the only client. It acknowledges all events, although it still waits for more: the
/// server keeps events that are not acknowledged.
pub fn a_thousand_wait(world: &World) {
    let (_server, mut eye, client) = world.with_taken("for ever");
    let mut read = client.said().len();
    let keys: Vec<_> = (0..LOCKS).map(|number| format!("lock:{number}")).collect();
    keys.iter().for_each(|key| take(&mut eye, key));
    client.wants("more", plain("for ever"));
    let held: HashMap<u64, String> = (0..WAITS)
        .map(|number| (client.wants(&number.to_string(), plain(&keys[number % LOCKS])), number.to_string()))
        .collect();
    eye.until_waiting(WAITS as i64 + 1);
    let used = connections(&mut eye).len();
    assert!(used <= world.tried.connections_max, "{used} connections");
    keys.iter().for_each(|key| release_by_hand(&mut eye, key));
    let mut released = 0;
    while released < WAITS {
        let more = client
            .until_heard("more is said", PATIENCE, |said| Some(said.get(read..)?.to_vec()).filter(|it| !it.is_empty()));
        read += more.len();
        for said in more {
            let Saying::Answer { id, answer } = said.what else { panic!("{said:?}") };
            ok(answer);
            match held.get(&id) {
                Some(held) => drop(client.ask(serde_json::json!({"do": "release", "held": held}))),
                None => released += 1,
            }
        }
    }
    assert!(keys.iter().all(|key| !exists(&mut eye, key)));
    wait_until("everything that was delivered is acknowledged", || eye.figure("events_unacknowledged") == 0);
    assert_eq!(eye.figure("waiters"), 1);
    let used = connections(&mut eye).len();
    assert!(used <= world.tried.connections_max, "{used} connections");
}

/// A thousand callers ask for fifty values: their process waits once for each, by as few connections as always. All callers
/// get their value, and the client acknowledges all events.
pub fn a_thousand_callers(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let key = |number: usize| format!("report:{}", number % LOCKS);
    (0..LOCKS).for_each(|number| lead_by_hand(&mut eye, &key(number)));
    lead_by_hand(&mut eye, "for ever");
    ask_once(&client, "for ever", serde_json::json!({}));
    let callers: Vec<_> = (0..WAITS).map(|number| ask_once(&client, &key(number), serde_json::json!({}))).collect();
    eye.until_waiting(LOCKS as i64 + 1);
    (0..LOCKS).for_each(|number| answer_by_hand(&mut eye, &key(number), &key(number)));
    for (number, id) in callers.into_iter().enumerate() {
        is_given(&key(number), client.answer(id));
        assert!(!has_begun(&client, id));
    }
    wait_until("all events are acknowledged", || eye.figure("events_unacknowledged") == 0);
    assert_eq!(eye.figure("waiters"), 1);
    let used = connections(&mut eye).len();
    assert!(used <= world.tried.connections_max, "{used} connections");
}
