//! A server that replies that it cannot do it now: the message must not call it silent, and must say what to do.

use crate::support::{bare, rlock, run, start, url};
use rlock_testing::{Cluster, Reply, Server, text, wait_until};
use std::process::Command;

fn tcp(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// It failed with this code, and does not say that no server answers: the server has answered.
#[track_caller]
fn answered(command: Command, code: i32, words: &[&str]) {
    let ended = run(command);
    ended.failed(code, words);
    assert!(!ended.errors.contains("no server answers"), "{ended:?}");
}

#[test]
fn a_replica() {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    let mut client = replica.client();
    crate::support::taken(&mut master.client(), "key");
    wait_until("it has the lock", || crate::support::exists(&mut client, "key"));
    answered(rlock(&replica, &["break", "--yes", "key"]), 69, &["is a replica", "READONLY", "the master's address"]);
}

#[test]
fn a_server_that_cannot_do_it_now() {
    let server = Server::start();
    let (mut client, mut endless) = (server.client(), server.client());
    crate::support::taken(&mut client, "key");
    client.say("CONFIG SET min-replicas-to-write 1");
    answered(rlock(&server, &["break", "--yes", "key"]), 69, &["NOREPLICAS", "min-replicas-to-write", "try later"]);
    client.say("CONFIG SET busy-reply-threshold 1");
    endless.send(&["EVAL", "while true do end", "0"]);
    let is_busy = |reply: Reply| matches!(reply, Reply::Error(line) if line.starts_with("BUSY"));
    wait_until("the script runs", || is_busy(client.say("PING")));
    answered(rlock(&server, &["inspect", "key"]), 69, &["BUSY", "script", "SCRIPT KILL"]);
    assert_eq!(client.say("SCRIPT KILL"), text("OK"));
}

#[test]
fn a_node_that_is_taken_for_the_whole() {
    let cluster = Cluster::start();
    let (one, port) = (&cluster.masters[0], cluster.masters[0].port());
    let advice = format!("redis+cluster://127.0.0.1:{port}");
    answered(bare(&["-u", &tcp(one), "inspect", &cluster.key_on(1)]), 78, &["node of a cluster", &advice]);
    // A node that can have several databases says only that this number is none of them.
    let known = one.client().say("CONFIG GET cluster-databases");
    let what = if known.as_list().is_empty() { "number at the end of the address" } else { "cluster-databases" };
    answered(bare(&["-u", &format!("{}/1", tcp(one)), "ls"]), 78, &["a cluster", what]);
    // A socket has no port that the advice could name.
    answered(bare(&["-u", &url(one), "inspect", &cluster.key_on(1)]), 78, &["node of a cluster", "redis+cluster://"]);
}

#[test]
fn a_server_that_is_taken_for_a_cluster_or_a_sentinel() {
    let server = Server::start();
    let by = |kind: &str, name: &str| {
        let address = format!("{kind}://127.0.0.1:{}{name}", server.port());
        bare(&["-u", &address, "ls"])
    };
    answered(by("redis+cluster", ""), 78, &["in no cluster", "its own address"]);
    answered(by("redis+sentinel", "/locks"), 78, &["no sentinel", "its own address"]);
    answered(by("redis", "/99"), 78, &["no database of this number"]);
}

const FULL: &[&str] = &["max number of clients", "maxclients are taken", "try later"];

/// The first connection is for requests. A wait needs a second one, and asks for it for as long as it has time.
#[test]
fn a_server_without_a_connection_to_spare() {
    let (server, mut client) = Server::with_client();
    crate::support::taken(&mut client, "key");
    client.say("CONFIG SET maxclients 1");
    for command in [&["inspect", "key"][..], &["run", "--wait", "300ms", "key", "true"], &["run", "-n", "key", "true"]]
    {
        answered(rlock(&server, command), 69, FULL);
    }
    client.say("CONFIG SET maxclients 2");
    answered(rlock(&server, &["run", "--wait", "300ms", "key", "true"]), 69, FULL);
    // A request that does not wait needs no second connection.
    answered(rlock(&server, &["run", "-n", "key", "true"]), 75, &["not free"]);
    run(rlock(&server, &["run", "other", "true"])).succeeded();
    let mut refused = || client.info("stats").number("rejected_connections");
    let before = refused();
    let waits = start(rlock(&server, &["run", "key", "true"]));
    wait_until("it is refused once more", || refused() > before);
    client.say("CONFIG SET maxclients 100");
    client.until_waiting(1);
    crate::support::released(&mut client, "key");
    waits.end().succeeded();
}

#[test]
fn keys_that_are_no_locks() {
    let (server, mut client) = Server::with_client();
    client.say("SET data 1");
    client.say("SET redisson_lock_token:{key} many");
    answered(rlock(&server, &["run", "data", "true"]), 78, &["data: refused: WRONGTYPE", "a name of its own"]);
    answered(rlock(&server, &["inspect", "data"]), 78, &["data: refused: WRONGTYPE", "a name of its own"]);
    answered(rlock(&server, &["run", "--token", "key", "true"]), 78, &["fencing counter", "redisson_lock_token:{"]);
}

/// Users of `rlock run` know no RLOCK command.
#[test]
fn a_lock_of_the_other_kind() {
    let (server, mut client) = Server::with_client();
    crate::support::taken(&mut client, "plain");
    client.say("RLOCK.RACQUIRE both somebody 600000");
    for side in ["--read", "--write"] {
        let ended = run(rlock(&server, &["run", side, "plain", "true"]));
        ended.failed(78, &["rlock: plain: it is held as a plain lock: leave out --read, --write and --slots"]);
    }
    let ended = run(rlock(&server, &["run", "both", "true"]));
    ended.failed(78, &["rlock: both: it is held as a read-write lock: use --read or --write"]);
    client.say("RLOCK.PACQUIRE slots somebody 600000 LIMIT 2");
    let ended = run(rlock(&server, &["run", "slots", "true"]));
    ended.failed(78, &["rlock: slots: it is held as slots: use --slots"]);
}
