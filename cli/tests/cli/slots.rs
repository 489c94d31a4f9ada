//! `--slots`: a limit of holders at a time; and `--max-waiters`: not to wait in a long queue.

use crate::support::{Place, exists, rlock, run, start, taken};
use rlock_testing::{Client, Reply, Server, wait_until};

/// A CMD that runs until there is a file `end`.
const RUNNING: &str = "touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; echo $RLOCK_TOKEN";

fn slot_taken(client: &mut Client, holder: &str) {
    assert_eq!(client.run(&["RLOCK.PACQUIRE", "gpu", holder, "600000", "LIMIT", "2"]), Reply::Nil);
}

#[test]
fn so_many_run_at_a_time_and_the_next_one_waits() {
    let (server, mut client) = Server::with_client();
    slot_taken(&mut client, "somebody");
    let place = Place::new();
    let running =
        start(place.of(rlock(&server, &["run", "--token", "--slots", "2", "gpu", "--", "sh", "-c", RUNNING])));
    wait_until("CMD runs", || place.has("running"));
    run(rlock(&server, &["run", "--slots", "2", "--no-wait", "gpu", "true"])).failed(75, &["gpu: not free"]);
    // A request with its own, higher limit is granted.
    run(rlock(&server, &["run", "--slots", "3", "--no-wait", "gpu", "true"])).succeeded();
    let waiting = start(rlock(&server, &["run", "--slots", "2", "gpu", "--", "echo", "done"]));
    client.until_waiting(1);
    place.mark("end");
    assert!(running.end().succeeded().trim().parse::<u64>().is_ok_and(|token| token > 0));
    assert_eq!(waiting.end().succeeded(), "done\n");
    assert_eq!(client.run(&["RLOCK.RELEASE", "gpu", "somebody"]).as_int(), 1);
    assert!(!exists(&mut client, "gpu"));
}

#[test]
fn a_slot_can_be_locked_and_unlocked() {
    let (server, mut client) = Server::with_client();
    let locked = run(rlock(&server, &["lock", "--slots", "2", "--lease", "10m", "gpu"])).succeeded().to_owned();
    assert!(exists(&mut client, "gpu"));
    run(rlock(&server, &["renew", "--lease", "10m", "gpu", &locked])).succeeded();
    run(rlock(&server, &["unlock", "gpu", &locked])).succeeded();
    assert!(!exists(&mut client, "gpu"));
    run(rlock(&server, &["unlock", "gpu", &locked])).said(&["gpu: the lock was lost before"]);
}

#[test]
fn holders_and_waiters_of_permits_are_shown() {
    let (server, mut client) = Server::with_client();
    for holder in ["ann", "bob"] {
        slot_taken(&mut client, holder);
    }
    let mut waits = server.client();
    waits.send(&["RLOCK.PACQUIRE", "gpu", "eve", "600000", "LIMIT", "2", "WAIT", "0"]);
    client.until_waiting(1);
    let shown = run(rlock(&server, &["inspect", "gpu"])).succeeded().to_owned();
    for part in ["gpu: 2 permits taken, the last one ends in 9m", "1 waiting", "permit ", "permit of 2"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = run(rlock(&server, &["inspect", "--json", "gpu"])).succeeded().to_owned();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["kind"], &shown["holder_count"]), (&"permits".into(), &2.into()), "{shown}");
    assert_eq!((&shown["holders"][0]["holder"], &shown["holders"][1]["holder"]), (&"ann".into(), &"bob".into()));
    assert!(shown["holders"][1]["time_left_ms"].as_u64().is_some_and(|left| left > 500_000), "{shown}");
    let waiter = &shown["waiters"][0];
    assert_eq!((&waiter["side"], &waiter["limit"], &waiter["keys"]), (&"permit".into(), &2.into(), &().into()));
    let held = run(rlock(&server, &["ls", "--held"])).succeeded().to_owned();
    assert!(held.lines().any(|line| ["gpu", "permits", "ann +1"].iter().all(|word| line.contains(word))), "{held}");
    let top = run(rlock(&server, &["top", "--batch", "--count", "1"])).succeeded().to_owned();
    assert!(top.lines().any(|line| ["gpu", "ann +1"].iter().all(|word| line.contains(word))), "{top}");
    run(rlock(&server, &["break", "--yes", "gpu"])).succeeded();
    assert_eq!(waits.receive(), Reply::Nil);
}

/// Other data is left alone.
#[test]
fn a_sorted_set_of_other_numbers_is_not_listed() {
    let (server, mut client) = Server::with_client();
    client.say("ZADD scores 17 ann 23 bob");
    assert_eq!(run(rlock(&server, &["ls", "--held"])).succeeded(), "");
    run(rlock(&server, &["run", "--slots", "2", "--no-wait", "scores", "true"])).failed(78, &["scores: "]);
}

#[test]
fn a_caller_with_a_queue_limit_gives_up_at_once() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let _waiting = start(rlock(&server, &["run", "--max-waiters", "1", "key", "true"]));
    client.until_waiting(1);
    let ended = run(rlock(&server, &["run", "--max-waiters", "1", "key", "true"]));
    ended.failed(75, &["key: as many wait for it as --max-waiters allows, or more, so nothing was run"]);
    assert_eq!(run(rlock(&server, &["run", "--max-waiters", "1", "-E", "0", "key", "true"])).succeeded(), "");
    assert_eq!(client.figure("waiters"), 1);
}
