//! What replicas and the append-only file get of an answer: plain commands in one transaction, also with the grant to the next
//! waiter. The cases without waiters are in `replication.rs`.

use super::{KEPT, gets};
use crate::inspect::of;
use crate::waiting::for_all_waiters;
use crate::waiting::scene::Scene;
use rlock_testing::{Reply, Server, Tap, list, start_waiting, text, wait_until};

for_all_waiters!(an_answer_and_the_next_grant_are_one_transaction);

fn an_answer_and_the_next_grant_are_one_transaction(scene: &mut Scene) {
    for (lease, is_published) in [(500_000, true), (700_000, false)] {
        scene.say("RLOCK.ONCE k ann 600000");
        let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
        let mut tap = Tap::on(scene.server);
        assert_eq!(scene.say(KEPT), Reply::Int(1));
        gets(scene, &mut bob, "42");
        let is_set = |command: &String| command.starts_with("SET rlock_answer:{k} 42 PXAT ");
        let stream = tap.drain();
        assert!(is_set(&stream[1]), "{stream:?}");
        let others = [&stream[..1], &stream[2..]].concat();
        assert_eq!(others, ["MULTI", "DEL k", "PUBLISH redisson_lock__channel:{k} 0", "EXEC"], "{stream:?}");

        scene.say("DEL rlock_answer:{k}");
        scene.say("RLOCK.ONCE k ann 600000");
        let mut plain = scene.wait(&format!("RLOCK.ACQUIRE k plain {lease} WAIT 0 FENCED"));
        let mut bob = scene.wait("RLOCK.ONCE k bob 600000 WAIT 0");
        tap.drain();
        assert_eq!(scene.say(KEPT), Reply::Int(1));
        let counter = format!("SET redisson_lock_token:{{k}} {} KEEPTTL", plain.outcome().token());
        gets(scene, &mut bob, "42");
        let stream = tap.drain();
        assert!(is_set(&stream[1]), "{stream:?}");
        assert!(stream[2].starts_with("RESTORE k ") && stream[2].ends_with(" {plain:1} ABSTTL REPLACE"), "{stream:?}");
        let others = [&stream[..1], &stream[3..]].concat();
        let published = is_published.then_some("PUBLISH redisson_lock__channel:{k} 0");
        let expected = ["MULTI"].into_iter().chain(published).chain([&counter, "EXEC"]);
        let mut expected: Vec<_> = expected.collect();
        let mut others: Vec<_> = others.iter().map(String::as_str).collect();
        expected.sort_unstable();
        others.sort_unstable();
        assert_eq!(others, expected, "{stream:?}");
        scene.say("FLUSHALL");
    }
}

/// Every kind of value, with its expiry.
#[test]
fn a_replica_and_a_restart_have_the_same_answers() {
    let master = Server::prepare().append_only_file().start();
    let replica = Server::start();
    let (mut ours, mut theirs) = (master.client(), replica.client());
    replica.follow(&master);
    for (key, value) in [("k", &b"42"[..]), ("empty", b""), ("bytes", b"\r\n$3\r\n\0\xff"), ("{brace}", b"7")] {
        ours.run(&["RLOCK.ONCE", key, "ann", "600000"]);
        let answer = [b"RLOCK.ANSWER", key.as_bytes(), b"ann", value, b"KEEP", b"600000"];
        assert_eq!(ours.run(&answer), Reply::Int(1), "{key}");
    }
    // A second answer of the same lock, with a hand-over.
    ours.say("RLOCK.ACQUIRE k ann 600000");
    let mut plain = start_waiting(&master, "RLOCK.ACQUIRE k plain 600000 WAIT 0");
    assert_eq!(ours.say("RLOCK.ANSWER k ann second KEEP 500000"), Reply::Int(1));
    assert_eq!(plain.receive(), Reply::Nil);
    let (expected, digest) = (ours.everything(), ours.digest());
    assert_eq!(expected.len(), 5, "{expected:?}");
    wait_until("the replica has it all", || theirs.digest() == digest);
    for command in ["RLOCK.ONCE k bob 600000", "RLOCK.ONCE k bob 600000 WAIT 0", "RLOCK.ANSWER k plain 1 KEEP 1"] {
        assert!(theirs.say(command).as_error().starts_with("READONLY"), "{command}");
    }
    assert_eq!(of(&theirs.say("RLOCK.INSPECT k"), "answer-bytes"), &Reply::Int(6));
    theirs.say("REPLICAOF NO ONE");
    assert_eq!(theirs.say("RLOCK.ONCE k bob 600000 WAIT 0"), text("second"));
    assert_eq!(theirs.say("RLOCK.ANSWER k plain third KEEP 600000"), Reply::Int(1));
    assert_eq!(theirs.say("RLOCK.ONCE k bob 600000"), text("third"));

    let aof = master.aof().to_ascii_uppercase();
    assert!(!aof.contains("RLOCK.") && !aof.contains("PUBLISH"), "{aof}");
    drop((ours, plain));
    let restarted = master.crash().append_only_file().start();
    let mut ours = restarted.client();
    assert_eq!((ours.everything(), ours.digest()), (expected, digest));
    assert_eq!(ours.say("RLOCK.ONCE k bob 600000 WAIT 0"), text("second"));
}

/// As if the server had died while it wrote the transaction to the file.
#[test]
fn a_transaction_that_is_cut_off_leaves_the_lead_and_no_answer() {
    let server = Server::prepare().append_only_file().start();
    let mut client = server.client();
    client.say("RLOCK.ONCE k ann 600000");
    let file = |start: &std::path::Path| {
        let files = std::fs::read_dir(start.join("appendonlydir")).unwrap().map(|file| file.unwrap().path());
        files.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap()
    };
    assert_eq!(client.say(KEPT), Reply::Int(1));
    drop(client);
    let start = server.crash().append_only_file().without_module();
    let path = file(start.directory());
    let bytes = std::fs::read(&path).unwrap();
    let exec = b"*1\r\n$4\r\nEXEC\r\n";
    assert!(bytes.ends_with(exec));
    std::fs::write(&path, &bytes[..bytes.len() - exec.len()]).unwrap();
    let restarted = start.start();
    assert_eq!(restarted.client().keys(), ["k"]);
    assert_eq!(restarted.client().say("HKEYS k"), list([text("ann")]));
}
