//! `rlock run`: what CMD gets, what comes back, and when it is not run at all.

use crate::support::{Place, children, exists, program, released, rlock, run, start, taken};
use rlock_testing::{Client, Server, text, wait_until};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A CMD that runs until there is a file `end`.
const RUNNING: &str = "touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";

fn executable(place: &Place, name: &str, content: &[u8]) {
    std::fs::write(place.file(name), content).unwrap();
    std::fs::set_permissions(place.file(name), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn cmd_has_the_lock_and_its_code_is_ours() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let script = "echo $RLOCK_KEY $RLOCK_HOLDER $RLOCK_TOKEN; touch running; \
                  while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; exit 7";
    let running = start(place.of(rlock(&server, &["run", "--token", "orders:42", "--", "sh", "-c", script])));
    wait_until("CMD runs", || place.has("running"));
    let holders = client.hash("orders:42");
    place.mark("end");
    let ended = running.end();
    assert_eq!((ended.code(), ended.errors.as_str()), (7, ""));
    let token = client.say("GET redisson_lock_token:{orders:42}").as_text().to_owned();
    assert_eq!(ended.output, format!("orders:42 {} {token}\n", holders[0].0), "{holders:?}");
    assert!(!exists(&mut client, "orders:42"));
    let next = run(rlock(&server, &["run", "--token", "orders:42", "sh", "-c", "echo $RLOCK_TOKEN"]));
    let [before, after] = [&token, next.succeeded().trim_end()].map(|token| token.parse::<i64>().unwrap());
    assert!(before < after, "{after} after {before}");
}

/// A token leaves a permanent counter on the server, for each name.
#[test]
fn without_the_option_no_token_is_taken() {
    let server = Server::start();
    let script = "echo ${RLOCK_TOKEN-none}";
    for lock in [&["key"][..], &["--read", "key"], &["--slots", "2", "key"], &["--all", "key,other"]] {
        let mut inner = rlock(&server, &[&["run"], lock, &["sh", "-c", script]].concat());
        // The token of another lock, under which this `rlock` runs.
        inner.env("RLOCK_TOKEN", "7");
        assert_eq!(run(inner).succeeded(), "none\n", "{lock:?}");
        assert_eq!(server.client().keys(), [""; 0], "{lock:?}");
    }
}

#[test]
fn stdin_is_cmds_and_its_arguments_are_untouched() {
    let server = Server::start();
    let mut command = rlock(&server, &["run", "key", "--", "sh", "-c", "cat; echo \"$1|$2|$0\" >&2", "-x", "a  b", ""]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\0binary\xff").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"\0binary\xff"[..], &b"a  b||-x\n"[..]));
}

/// It inherits nothing of ours: no open files, no ignored or blocked signals.
#[test]
fn cmd_inherits_nothing_of_ours() {
    let server = Server::start();
    let script = "for it in /proc/$$/fd/*; do echo ${it##*/}; done; grep -E 'SigBlk|SigIgn' /proc/self/status";
    let alone = run(program("sh", &["-c", script]));
    assert_eq!(run(rlock(&server, &["run", "key", "--", "sh", "-c", script])).succeeded(), alone.succeeded());
}

#[test]
fn a_cmd_that_is_killed_ends_as_in_a_shell() {
    let server = Server::start();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("USR1", 138)] {
        let ended = run(rlock(&server, &["run", "key", "--", "sh", "-c", &format!("kill -{signal} $$")]));
        assert_eq!((ended.code(), ended.errors.as_str()), (code, ""));
    }
    assert!(!exists(&mut server.client(), "key"));
}

#[test]
fn a_lock_that_is_not_free_in_time_is_a_code_of_its_own_and_nothing_is_run() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    let cases: [(&[&str], i32); 4] =
        [(&["--no-wait"], 75), (&["-n", "-E", "3"], 3), (&["--wait", "0"], 75), (&["--wait", "50ms"], 75)];
    for (options, code) in cases {
        let arguments = [&["run"], options, &["key", "--", "touch", "it-ran"]].concat();
        run(place.of(rlock(&server, &arguments))).failed(code, &["key: not free", "rlock inspect"]);
    }
    // The exit code says it already, and for a message cron would send a mail.
    let quiet = run(place.of(rlock(&server, &["run", "--quiet", "-n", "key", "--", "touch", "it-ran"])));
    assert_eq!((quiet.code(), quiet.output.as_str(), quiet.errors.as_str()), (75, "", ""));
    // No failure, so no mail from cron.
    let quiet = run(place.of(rlock(&server, &["run", "--wait=50ms", "--busy-code=0", "key", "--", "touch", "it-ran"])));
    assert_eq!(quiet.succeeded(), "");
    assert!(!place.has("it-ran"));
    client.until_waiting(0);
    released(&mut client, "key");
    run(place.of(rlock(&server, &["run", "-n", "key", "--", "touch", "it-ran"]))).succeeded();
    assert!(place.has("it-ran"));
}

/// A typing error shows without waiting, and without a request to the server.
#[test]
fn a_cmd_that_cannot_be_run_fails_as_in_a_shell_before_the_lock_is_asked_for() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    std::fs::write(place.file("text"), "just text").unwrap();
    executable(&place, "script", b"#! /no/such/interpreter -x\nexit 0\n");
    executable(&place, "from-elsewhere", b"#!/bin/sh\r\nexit 0\r\n");
    let cases = [
        ("no-such-command", 127, "not found in PATH"),
        ("./no-such-file", 127, "no such file"),
        ("", 127, "CMD is empty"),
        ("./script", 126, "its interpreter, /no/such/interpreter, is missing"),
        ("./from-elsewhere", 126, "its interpreter, /bin/sh\\x0d, is missing"),
        ("./text", 126, "chmod +x"),
        ("./", 126, "directory"),
    ];
    for (command, code, words) in cases {
        run(place.of(rlock(&server, &["run", "key", "--", command]))).failed(code, &[words]);
    }
    client.say("RLOCK.RELEASE key somebody");
    assert!(client.everything().is_empty(), "no token was asked for");
}

/// Errors that show only when CMD is started: a program without its loader.
#[test]
fn a_lock_is_released_if_cmd_does_not_start() {
    let server = Server::start();
    let place = Place::new();
    let program = std::fs::read("/bin/true").unwrap();
    let at = program.windows(4).position(|bytes| bytes == b"/ld-").expect("a program with a loader");
    let program = [&program[..at], b"/no-", &program[at + 4..]].concat();
    executable(&place, "program", &program);
    run(place.of(rlock(&server, &["run", "key", "--", "./program"]))).failed(126, &["./program", "loader is missing"]);
    assert!(!exists(&mut server.client(), "key"));
}

/// As in shells and execvp: sh runs a script without a first line that names an interpreter.
#[test]
fn a_script_without_an_interpreter_runs() {
    let server = Server::start();
    let place = Place::new();
    executable(&place, "script", b"echo $RLOCK_KEY");
    assert_eq!(run(place.of(rlock(&server, &["run", "key", "./script"]))).succeeded(), "key\n");
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let server = Server::start();
    let place = Place::new();
    let reads = |name: &str| {
        let script = format!("echo {name} >>log; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done");
        start(place.of(rlock(&server, &["run", "--read", "key", "sh", "-c", &script])))
    };
    let reading = ["one", "two"].map(reads);
    for name in ["one", "two"] {
        place.wait_for("log", name);
    }
    run(rlock(&server, &["run", "-n", "--write", "key", "true"])).failed(75, &["not free"]);
    run(rlock(&server, &["run", "-n", "key", "true"])).failed(78, &["use --read or --write"]);
    place.mark("end");
    for reader in reading {
        reader.end().succeeded();
    }
    run(rlock(&server, &["run", "-n", "--write", "key", "true"])).succeeded();
    assert!(!exists(&mut server.client(), "key"));
}

#[test]
fn too_few_replicas_run_nothing() {
    let server = Server::start();
    let place = Place::new();
    let arguments = ["run", "--replicas", "1", "--lease", "1500ms", "key", "touch", "it-ran"];
    run(place.of(rlock(&server, &arguments))).failed(69, &["0 of 1 replicas", "try later"]);
    assert!(!exists(&mut server.client(), "key"), "it was released, and that before we were gone");
    assert!(!place.has("it-ran"));
    let mut replica = Server::start();
    replica.follow(&server);
    run(place.of(rlock(&server, &["run", "--replicas", "1", "key", "touch", "it-ran"]))).succeeded();
    assert!(place.has("it-ran") && replica.is_running());
}

/// The server may have room soon, but not within the given time.
#[test]
fn a_server_that_has_no_room_runs_nothing() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let _first = start(rlock(&server, &["run", "key", "true"]));
    client.until_waiting(1);
    let place = Place::new();
    for (limit, initially, words) in [
        ("rlock.max-tickets 1", "rlock.max-tickets 1000000", &["QUEUEFULL", "rlock.max-tickets", "try later"][..]),
        ("rlock.max-sessions 1", "rlock.max-sessions 10000", &["QUEUEFULL", "rlock.max-sessions", "try later"]),
        ("maxmemory 1", "maxmemory 0", &["cannot do it now (OOM", "maxmemory"]),
    ] {
        assert_eq!(client.say(&format!("CONFIG SET {limit}")), text("OK"));
        let further = run(place.of(rlock(&server, &["run", "--wait", "200ms", "key", "--", "touch", "it-ran"])));
        further.failed(69, words);
        client.say(&format!("CONFIG SET {initially}"));
    }
    assert!(!place.has("it-ran"));
    assert_eq!(client.figure("waiters"), 1, "the first waits on");
}

/// It is asked again for as long as a failover may take, and no longer.
#[test]
fn a_server_that_goes_away_during_a_wait_is_not_waited_for_forever() {
    let mut server = Server::start();
    let mut client = server.client();
    taken(&mut client, "key");
    let place = Place::new();
    let waiting = start(place.of(rlock(&server, &["run", "key", "--", "touch", "it-ran"])));
    client.until_waiting(1);
    server.kill();
    waiting.end().failed(69, &["no server answers"]);
    assert!(!place.has("it-ran"));
}

/// An operator ended only this wait, so it is not a permanent refusal.
#[test]
fn a_wait_that_an_operator_ends_is_a_lock_that_was_not_got() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    for (options, code) in [(&["--wait", "10m"][..], 75), (&["-E", "3"], 3), (&["-E", "0"], 0)] {
        let arguments = [&["run"], options, &["key", "--", "touch", "it-ran"]].concat();
        let waiting = start(place.of(rlock(&server, &arguments)));
        client.until_waiting(1);
        let id = polling(&mut client);
        assert_eq!(client.say(&format!("CLIENT UNBLOCK {id} ERROR")).as_int(), 1);
        let ended = waiting.end();
        match code {
            0 => assert_eq!(ended.succeeded(), ""),
            _ => ended.failed(code, &["key: an operator has ended the wait", "nothing was run"]),
        }
        assert_eq!(client.figure("waiters"), 0);
    }
    assert!(!place.has("it-ran"));
}

/// The id of the only connection that waits for events.
fn polling(client: &mut Client) -> String {
    let mut id = None;
    wait_until("a session waits for events", || {
        let list = client.say("CLIENT LIST");
        let line = list.as_text().lines().find(|line| line.contains("cmd=rlock.events") && line.contains("flags=b"));
        id = line.and_then(|line| line.split([' ', '=']).nth(1)).map(str::to_owned);
        id.is_some()
    });
    id.unwrap()
}

/// The server ends while CMD works, and CMD ends before its lease does: CMD's code counts.
#[test]
fn a_failed_release_is_reported_and_keeps_cmds_code() {
    let mut server = Server::start();
    let place = Place::new();
    let script = "touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; exit 3";
    let arguments = ["run", "--connect-timeout", "100ms", "key", "sh", "-c", script];
    let running = start(place.of(rlock(&server, &arguments)));
    wait_until("CMD runs", || place.has("running"));
    server.kill();
    place.mark("end");
    running
        .end()
        .failed(3, &["no server answers", "sh had ended before its lease, with which the lock ends, in 30.0s at most"]);
}

/// The server stalls for longer than a reply may take, executes the release after the client has stopped waiting, and
/// finds nothing to release for the next request. CMD was done inside its lease.
#[test]
fn a_server_that_stalls_when_cmd_ends_makes_no_loss() {
    let server = Server::start();
    let place = Place::new();
    let arguments = ["run", "--connect-timeout", "300ms", "key", "sh", "-c", &format!("{RUNNING}; exit 3")];
    let running = start(place.of(rlock(&server, &arguments)));
    wait_until("CMD runs", || place.has("running"));
    server.freeze();
    place.mark("end");
    wait_until("CMD has ended", || children(&running).is_empty());
    let ended = Instant::now();
    wait_until("the first answer is late", || ended.elapsed() > Duration::from_secs(1));
    server.thaw();
    let ended = running.end();
    assert_eq!((ended.code(), ended.errors.as_str()), (3, ""));
    assert!(!exists(&mut server.client(), "key"));
}

/// Like `flock -c`: the shell is sh, for every user.
#[test]
fn a_line_is_run_by_sh() {
    let server = Server::start();
    let place = Place::new();
    let line = "echo $RLOCK_KEY $RLOCK_HOLDER | tr a-z A-Z; exit 7";
    for arguments in [["run", "-c", line, "key"], ["run", "key", "--command", line]] {
        let mut command = rlock(&server, &arguments);
        command.env("SHELL", "/bin/false");
        let ended = run(place.of(command));
        assert_eq!((ended.code(), ended.errors.as_str()), (7, ""), "{ended:?}");
        assert!(ended.output.starts_with("KEY "), "{ended:?}");
    }
    let running = start(place.of(rlock(&server, &["run", "--lease", "1s", "-c", RUNNING, "key"])));
    wait_until("it runs", || place.has("running"));
    server.client().say("DEL key");
    // Only as much of the line is shown as a reader needs to recognize it.
    running.end().failed(76, &["so 'touch running; while [ -e here ] && ! […' was sent TERM"]);
    for arguments in [&["run", "-c", "true", "key", "true"][..], &["run", "-c", "", "key"], &["run", "-c", "true"]] {
        let refused = run(rlock(&server, arguments));
        assert_eq!(refused.code(), 64, "{refused:?}");
    }
}
