//! `rlock lock --detach` and `rlock adopt`: a lock that is handed on from one process to another.

use crate::support::{Ended, Place, bare, exists, rlock, run, start};
use rlock_testing::{Client, Reply, Server, wait_until};
use std::fs::File;
use std::process::Command;

/// A CMD that runs until there is a file `end`.
const UNTIL_END: &str = "echo ready >>log; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";

fn detached(server: &Server, lock: &[&str]) -> String {
    let ended = run(rlock(server, &[&["lock", "--detach", "--lease", "10m"], lock].concat()));
    ended.succeeded().trim_end_matches('\n').to_owned()
}

fn adopts(server: &Server, place: &Place, text: &str, line: &str) -> Command {
    let mut command = rlock(server, &["adopt", "-c", line]);
    command.env("RLOCK_DETACHED", text);
    place.of(command)
}

fn holders(client: &mut Client, key: &str) -> Vec<String> {
    client.hash(key).into_iter().map(|(holder, _)| holder).collect()
}

#[test]
fn a_lock_of_each_kind_is_handed_on_and_released() {
    // So that the whole text is known.
    let server = Server::prepare().counted_tokens().start();
    let mut client = server.client();
    let kinds: [(&[&str], &str, &str, &str); 5] = [
        (&["key"], "rlock1/plain/600000/0/-/", "/key", "key none"),
        (&["--token", "a/b"], "rlock1/plain/600000/0/1/", "/a%2Fb", "a/b 1"),
        (&["--read", "key"], "rlock1/read/600000/0/-/", "/key", "key none"),
        (&["--slots", "4", "gpu"], "rlock1/permit/600000/4/-/", "/gpu", "gpu none"),
        (&["--all", "--token", "one,two"], "rlock1/several/600000/0/1,1/", "/one/two", "one,two 1,1"),
    ];
    for (lock, begin, end, printed) in kinds {
        let text = detached(&server, lock);
        assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
        let key = lock.last().unwrap().split(',').next().unwrap();
        assert!(exists(&mut client, key), "{text}");
        let line = "echo $RLOCK_KEY ${RLOCK_TOKEN-none}; echo ${RLOCK_DETACHED-none}";
        let place = Place::new();
        let mut command = adopts(&server, &place, &text, line);
        // The token of another lock, under which this `rlock` runs.
        command.env("RLOCK_TOKEN", "7");
        assert_eq!(run(command).succeeded(), format!("{printed}\nnone\n"));
        assert!(!exists(&mut client, key), "{text}");
    }
}

/// The holder stays the same, and the lease is renewed with the length that the text names.
#[test]
fn an_adopted_lock_is_renewed() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let text = run(rlock(&server, &["lock", "--detach", "--lease", "1500ms", "key"])).succeeded().trim_end().to_owned();
    let holder = holders(&mut client, "key");
    let running = start(adopts(&server, &place, &text, &format!("{UNTIL_END}; exit 7")));
    place.wait_for("log", "ready");
    let expiry = client.expiry("key");
    wait_until("it is renewed", || client.expiry("key") > expiry + 150);
    assert_eq!(holders(&mut client, "key"), holder);
    place.mark("end");
    assert_eq!(running.end().code(), 7);
    assert!(!exists(&mut client, "key"));
}

/// The input after the text belongs to CMD.
#[test]
fn the_text_is_read_from_stdin_or_a_file() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let mut from = |text_file: &str| {
        std::fs::write(place.file("text"), format!("{}\nhello\n", detached(&server, &["key"]))).unwrap();
        let mut command = place.of(rlock(&server, &["adopt", "--text-file", text_file, "cat"]));
        command.stdin(File::open(place.file("text")).unwrap());
        let printed = run(command).succeeded().to_owned();
        assert!(!exists(&mut client, "key"));
        printed
    };
    assert_eq!(from("-"), "hello\n");
    assert!(from("text").ends_with("/key\nhello\n"), "CMD has its whole input");
}

#[test]
fn a_lock_that_is_lost_before_runs_nothing() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let text = detached(&server, &["key"]);
    client.say("DEL key");
    run(adopts(&server, &place, &text, "touch it-ran")).failed(76, &["key: the lock was lost before it was adopted"]);
    assert!(!place.has("it-ran") && !exists(&mut client, "key"));
}

#[test]
fn a_lock_that_is_lost_later_ends_cmd() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let text = run(rlock(&server, &["lock", "--detach", "--lease", "1s", "key"])).succeeded().to_owned();
    let running = start(adopts(&server, &place, &text, "exec 2>/dev/null; echo ready >>log; exec sleep 600"));
    place.wait_for("log", "ready");
    client.say("RLOCK.BREAK key");
    running.end().failed(76, &["key: the lock was lost", "was sent TERM"]);
}

/// A wrong text is as secret as a right one.
#[test]
fn a_text_that_is_none_is_refused_and_not_shown() {
    for text in ["", "RLOCK_HOLDER=secret", "rlock1/plain/30000/0/-/secret", "rlock2/plain/30000/0/-/secret/key"] {
        let mut command = bare(&["adopt", "true"]);
        command.env("RLOCK_DETACHED", text);
        let ended = run(command);
        ended.failed(64, &[if text.is_empty() { "RLOCK_DETACHED" } else { "not that of a detached lock" }]);
        assert!(!ended.errors.contains("secret"), "{ended:?}");
    }
    run(bare(&["adopt", "--text-file", "no-such-file", "true"])).failed(64, &["no-such-file"]);
    run(bare(&["adopt"])).failed(64, &["CMD"]);
}

#[test]
fn without_a_server_nothing_is_run() {
    let place = Place::new();
    let no_server = format!("redis://127.0.0.1:{}", rlock_testing::free_port());
    let mut command = bare(&["-u", &no_server, "adopt", "touch", "it-ran"]);
    command.env("RLOCK_DETACHED", "rlock1/plain/1000/0/-/holder/key");
    run(place.of(command)).failed(69, &["no server answers"]);
    assert!(!place.has("it-ran"));
}

/// Without the text, no process could adopt the lock.
#[test]
fn a_text_that_cannot_be_written_leaves_a_free_lock() {
    let (server, mut client) = Server::with_client();
    let mut command = rlock(&server, &["lock", "--detach", "--lease", "10m", "key"]);
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let ended = Ended { status: output.status, output: String::new(), errors };
    ended.failed(74, &["could not be written"]);
    assert!(!exists(&mut client, "key"));
    assert_eq!(client.run(&["RLOCK.ACQUIRE", "key", "somebody", "600000"]), Reply::Nil);
    run(rlock(&server, &["lock", "--detach", "--no-wait", "--lease", "10m", "key"])).failed(75, &["key: not free"]);
}
