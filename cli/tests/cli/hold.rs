//! `rlock hold`: a lock until it is stopped, or its input ends.

use crate::support::{bare, exists, rlock, run, signal, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Server, free_port, wait_until};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

#[test]
fn it_is_held_and_renewed_until_a_signal_comes() {
    let (server, mut client) = Server::with_client();
    for name in ["TERM", "INT"] {
        // Its input is /dev/null, like that of a service: the end of this input means nothing.
        let held = start(rlock(&server, &["hold", "--lease", "3s", "--name", "ann", "key"]));
        wait_until("it is held", || exists(&mut client, "key"));
        let expiry = client.expiry("key");
        wait_until("it is renewed", || client.expiry("key") > expiry);
        let holder = client.hash("key")[0].0.clone();
        held.signal(name);
        let ended = held.end();
        let printed = ended.succeeded().to_owned();
        assert!(printed.starts_with(&format!("RLOCK_HOLDER={holder}\n")) && holder.starts_with("ann:"), "{printed}");
        assert!(!exists(&mut client, "key"));
    }
}

#[test]
fn the_end_of_its_input_releases_it() {
    let (server, mut client) = Server::with_client();
    let mut held = held(&server, &["hold", "key"]);
    assert!(exists(&mut client, "key"));
    drop(held.stdin.take());
    assert!(held.wait().unwrap().success());
    assert!(!exists(&mut client, "key"));
}

/// Returns when it has said that it has the lock.
fn held(server: &Server, arguments: &[&str]) -> Child {
    let mut held = rlock(server, arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(held.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("RLOCK_HOLDER="), "{first}");
    held
}

fn ended_with(held: Child, code: i32, words: &str) {
    let ended = held.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(code), "{said}");
    assert!(said.starts_with("rlock: key: the lock was lost") && said.contains(words), "{said}");
    assert!(said.contains("it was broken, deleted or forgotten") && said.lines().count() == 1, "{said}");
}

#[test]
fn at_a_terminal_it_says_how_to_end_it_and_goes_on_in_the_background() {
    let (server, mut client) = Server::with_client();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock hold key; echo code $?");
    terminal.wait_for("rlock: key: held; Ctrl-C or Ctrl-D releases it");
    terminal.press("C-d");
    terminal.wait_for("code 0");
    assert!(!exists(&mut client, "key"));
    // If it read the terminal in the background, it would be stopped, and not renew the lease.
    terminal.enter("clear; set -m; rlock hold --lease 3s key & sleep 0.1; echo ready");
    terminal.wait_for("ready\nprompt>");
    wait_until("it is held", || exists(&mut client, "key"));
    let expiry = client.expiry("key");
    wait_until("it is renewed", || client.expiry("key") > expiry);
    terminal.enter("kill %1; wait %1; echo ended with $?");
    terminal.wait_for("ended with 0");
    assert!(!exists(&mut client, "key"));
}

#[test]
fn a_loss_is_reported_at_once_and_by_the_exit_code() {
    let (server, mut client) = Server::with_client();
    let mut held = held(&server, &["hold", "--lease", "3s", "key"]);
    let _open = held.stdin.take();
    client.say("RLOCK.BREAK key");
    ended_with(held, 76, "lost, others may have it");
}

/// The loss is noticed only at the release.
#[test]
fn that_it_was_lost_before_it_was_released_is_no_success() {
    let (server, mut client) = Server::with_client();
    let held = held(&server, &["hold", "--lease", "10m", "key"]);
    client.say("RLOCK.BREAK key");
    signal("TERM", &held.id().to_string());
    ended_with(held, 76, "lost before it was released");
}

#[test]
fn it_waits_as_run_does() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    run(rlock(&server, &["hold", "--wait", "50ms", "-E", "3", "key"])).failed(3, &["key: not free"]);
    let waits = start(rlock(&server, &["hold", "key"]));
    client.until_waiting(1);
    waits.signal("TERM");
    assert_eq!(waits.end().code(), 143);
    client.until_waiting(0);
    run(rlock(&server, &["hold", ""])).failed(64, &["KEY is empty"]);
    let no_server = format!("redis://127.0.0.1:{}", free_port());
    run(bare(&["-u", &no_server, "hold", "-n", "key"])).failed(69, &["no server answers"]);
}
