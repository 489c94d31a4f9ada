//! `--all`: several locks at once, or none.

use crate::support::{Place, exists, looks, released, rlock, run, start, taken};
use rlock_testing::{Cluster, Server, wait_until};

#[test]
fn cmd_has_all_of_them_and_a_token_of_each() {
    // So that both tokens are known, and differ.
    let server = Server::prepare().counted_tokens().start();
    let mut client = server.client();
    let place = Place::new();
    let script = "touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; echo $RLOCK_KEY $RLOCK_TOKEN";
    run(rlock(&server, &["run", "--token", "bob", "true"])).succeeded();
    let running = start(place.of(rlock(&server, &["run", "--token", "--all", "ann,bob", "--", "sh", "-c", script])));
    wait_until("CMD runs", || place.has("running"));
    assert!(exists(&mut client, "ann") && exists(&mut client, "bob"));
    place.mark("end");
    assert_eq!(running.end().succeeded(), "ann,bob 1,2\n");
    assert!(!exists(&mut client, "ann") && !exists(&mut client, "bob"));
}

#[test]
fn while_one_is_taken_none_of_the_others_is() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "bob");
    let ended = run(rlock(&server, &["run", "--all", "--no-wait", "ann,bob", "true"]));
    ended.failed(75, &["ann,bob: not free"]);
    let waiting = start(rlock(&server, &["run", "--all", "--verbose", "ann,bob,eve", "--", "echo", "done"]));
    wait_until("it waits", || client.figure("waiters") > 0);
    assert!(!exists(&mut client, "ann"));
    let shown = run(rlock(&server, &["inspect", "bob"])).succeeded().to_owned();
    assert!(shown.contains("waits for 3 keys"), "{shown}");
    let shown = run(rlock(&server, &["inspect", "--json", "ann"])).succeeded().to_owned();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["kind"], &shown["waiters"][0]["keys"]), (&().into(), &3.into()), "{shown}");
    // It asks about each lock in turn until one is taken. When it asks again, it has printed that.
    let before = looks(&mut client);
    wait_until("it has asked twice", || looks(&mut client) >= before + 4);
    released(&mut client, "bob");
    let ended = waiting.end();
    assert_eq!((ended.code(), ended.output.as_str()), (0, "done\n"), "{ended:?}");
    ended.said(&["bob: 1st of 1 in line, held by somebody, waiting for "]);
}

#[test]
fn they_are_locked_renewed_and_unlocked_together() {
    let (server, mut client) = Server::with_client();
    let locked = run(rlock(&server, &["lock", "--token", "--all", "--lease", "10m", "ann,bob"])).succeeded().to_owned();
    let token = locked.lines().nth(1).unwrap();
    assert_eq!(token.split(',').count(), 2, "{locked}");
    run(rlock(&server, &["renew", "--all", "--lease", "20m", "ann,bob", &locked])).succeeded();
    for key in ["ann", "bob"] {
        assert!(client.expiry(key) > client.time_ms() + 600_000, "{key}");
    }
    client.say("DEL ann");
    let ended = run(rlock(&server, &["renew", "--all", "--lease", "20m", "ann,bob", &locked]));
    ended.failed(76, &["ann,bob: the lock was lost before"]);
    run(rlock(&server, &["unlock", "--all", "ann,bob", &locked])).failed(76, &["lost before it was unlocked"]);
    assert!(!exists(&mut client, "bob"));
}

#[test]
fn each_name_is_there_once() {
    let server = Server::start();
    for (key, words) in [
        ("ann,,bob", "a name in ann,,bob is empty"),
        (",", "is empty"),
        ("", "KEY is empty"),
        ("ann,bob,ann", "ann is named twice"),
    ] {
        run(rlock(&server, &["run", "--all", key, "true"])).failed(64, &[words]);
    }
    // Without --all it is a name like any other.
    run(rlock(&server, &["run", "ann,,bob", "true"])).succeeded();
}

#[test]
fn in_a_cluster_it_says_what_their_names_need() {
    let cluster = Cluster::start();
    let nodes: Vec<_> = cluster.nodes().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let on = |key: &str| {
        let url = format!("redis+cluster://{}", nodes.join(","));
        run(crate::support::bare(&["-u", &url, "run", "--all", key, "true"]))
    };
    on("{bank}:ann,{bank}:bob").succeeded();
    on("ann,bob").failed(78, &["CROSSSLOT", "{orders}:1"]);
}
