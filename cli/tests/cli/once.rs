//! `rlock once`: one caller runs CMD, and its output is the answer for every caller.

use crate::support::{Ended, Place, Running, bare, exists, is_alive, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::network::{Order, Proxy};
use rlock_testing::{Client, Reply, Server, text, wait_until};
use std::process::Command;
use std::time::{Duration, Instant};

const ONCE: [&str; 4] = ["once", "key", "--keep", "10m"];

/// A CMD that runs until there is a file `end`.
const UNTIL_END: &str = "echo ready >>log; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";

/// With this line as CMD. The file `runs` counts how often it ran.
fn once(server: &Server, place: &Place, options: &[&str], line: &str) -> Command {
    let line = format!("echo ran >>runs; {line}");
    place.of(rlock(server, &[&ONCE, options, &["-c", &line]].concat()))
}

fn runs(place: &Place) -> usize {
    place.lines("runs").len()
}

fn stored(client: &mut Client) -> Reply {
    client.run(&["GET", "rlock_answer:{key}"])
}

/// Nothing is printed or stored, and the lock is free.
#[track_caller]
fn left_nothing(ended: &Ended, client: &mut Client) {
    assert_eq!(ended.output, "", "{ended:?}");
    assert_eq!(stored(client), Reply::Nil);
    assert!(!exists(client, "key"));
}

/// A caller that does the work, and another one that waits for the answer.
fn leader_and_waiter(server: &Server, client: &mut Client, place: &Place, options: &[&str]) -> [Running; 2] {
    let leader = start(once(server, place, options, &format!("{UNTIL_END}; echo first")));
    place.wait_for("log", "ready");
    let waiter = start(once(server, place, &[], "echo second"));
    client.until_waiting(1);
    [leader, waiter]
}

#[test]
fn ten_callers_at_once_and_one_run() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let line = format!("{UNTIL_END}; echo $RLOCK_KEY ${{RLOCK_TOKEN-none}}");
    let callers = [(); 10].map(|()| start(once(&server, &place, &[], &line)));
    client.until_waiting(9);
    place.mark("end");
    for caller in callers {
        assert_eq!(caller.end().succeeded(), "key none\n");
    }
    assert_eq!(run(once(&server, &place, &["--no-wait"], "echo other")).succeeded(), "key none\n");
    assert_eq!(runs(&place), 1);
    let left = client.say("PTTL rlock_answer:{key}").as_int();
    assert!(left > 500_000 && left <= 600_000 && !exists(&mut client, "key"), "{left}");
}

#[test]
fn a_cmd_that_fails_stores_nothing_and_the_next_caller_runs_its_own() {
    let (server, mut client) = Server::with_client();
    for (end, code) in [("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
        let place = Place::new();
        let leader = start(once(&server, &place, &[], &format!("echo half; echo why >&2; {UNTIL_END}; {end}")));
        place.wait_for("log", "ready");
        let waiter = start(once(&server, &place, &[], "echo whole"));
        client.until_waiting(1);
        place.mark("end");
        let ended = leader.end();
        assert_eq!((ended.code(), ended.output.as_str(), ended.errors.as_str()), (code, "", "why\n"));
        assert_eq!(waiter.end().succeeded(), "whole\n");
        assert_eq!(runs(&place), 2);
        run(rlock(&server, &["once", "key", "--forget"])).succeeded();
    }
    left_nothing(&run(once(&server, &Place::new(), &[], "echo half; false")), &mut client);
}

#[test]
fn a_leader_that_is_killed_leaves_the_work_to_the_next_caller() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let [leader, waiter] = leader_and_waiter(&server, &mut client, &place, &["--lease", "1s"]);
    leader.signal("KILL");
    assert_eq!(waiter.end().succeeded(), "second\n");
    assert_eq!((stored(&mut client), runs(&place)), (text("second\n"), 2));
}

#[test]
fn a_signal_ends_cmd_or_the_wait_and_leaves_nothing() {
    let (server, mut client) = Server::with_client();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("USR1", 138)] {
        let place = Place::new();
        let [leader, waiter] = leader_and_waiter(&server, &mut client, &place, &[]);
        waiter.signal(name);
        let waited = waiter.end();
        assert_eq!((waited.code(), waited.output.as_str(), waited.errors.as_str()), (code, "", ""), "{name}");
        assert_eq!(client.figure("waiters"), 0);
        leader.signal(name);
        let ended = leader.end();
        assert_eq!((ended.code(), ended.errors.as_str()), (code, ""), "{name}");
        left_nothing(&ended, &mut client);
        assert_eq!(runs(&place), 1);
    }
}

/// CMD has the terminal except for its output.
#[test]
fn at_a_terminal_ctrl_c_reaches_cmd_once() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    let script = "trap \"echo INT >>log; exit 5\" INT; echo ready >>log; while [ -e here ]; do :; done";
    terminal.enter(&format!("rlock once key --keep 1m -- sh -c '{script}'; echo code $?"));
    terminal.place().wait_for("log", "ready");
    terminal.press("C-c");
    terminal.wait_for("code 5\nprompt>");
    assert_eq!(terminal.place().lines("log"), ["ready", "INT"]);
    terminal.enter("rlock once key --keep 1m -- sh -c 'echo who? >&2; read name; echo hello $name'");
    terminal.wait_for("\nwho?");
    terminal.enter("world");
    terminal.wait_for("\nhello world");
}

/// CMD gets a signal, and its output is read until it has ended.
#[test]
fn a_lock_that_is_broken_in_the_work_ends_cmd_and_stores_nothing() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let script = "exec 2>/dev/null; trap 'head -c 1000000 /dev/zero; echo TERM >>log; exit 0' TERM; echo half; echo ready >>log; \
                  while [ -e here ]; do sleep 0.01; done";
    let running = start(once(&server, &place, &["--lease", "1s", "--grace", "10m"], script));
    place.wait_for("log", "ready");
    client.say("RLOCK.BREAK key");
    let ended = running.end();
    ended.failed(76, &["key: the lock was lost", "was sent TERM"]);
    left_nothing(&ended, &mut client);
    assert_eq!(place.lines("log"), ["ready", "TERM"]);
}

#[test]
fn a_loss_that_shows_only_at_the_end_stores_nothing() {
    let (server, mut client) = Server::with_client();
    for trouble in ["RLOCK.BREAK key", "SET key text"] {
        let place = Place::new();
        let running = start(once(&server, &place, &["--lease", "1m"], &format!("{UNTIL_END}; echo late")));
        place.wait_for("log", "ready");
        client.say(trouble);
        place.mark("end");
        running.end().failed(76, &["key: the lock was lost before", "had ended, so nothing is stored"]);
        assert_eq!(stored(&mut client), Reply::Nil);
        client.say("DEL key");
    }
}

fn output(mut command: Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Also more bytes than a pipe holds, and bytes that are written just before the end.
#[test]
fn any_bytes_are_an_answer() {
    let (server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.max-answer 1000000");
    let all: Vec<u8> = (0..=u8::MAX).cycle().take(500_000).collect();
    for bytes in [&all[..], b"", b"\xff", b"no end of line", b"\0"] {
        let place = Place::new();
        std::fs::write(place.file("bytes"), bytes).unwrap();
        for _ in 0..2 {
            assert!(output(once(&server, &place, &[], "cat bytes")) == bytes, "{} bytes", bytes.len());
        }
        assert_eq!(runs(&place), 1);
        run(rlock(&server, &["once", "key", "--forget"])).succeeded();
    }
}

/// A process that CMD left in the background may never close the pipe.
#[test]
fn the_answer_ends_with_cmd() {
    let server = Server::start();
    let place = Place::new();
    let line = "(while [ -e here ]; do sleep 0.01; done) & echo $! >started; echo answer";
    assert_eq!(run(once(&server, &place, &[], line)).succeeded(), "answer\n");
    assert!(is_alive(&place.lines("started").concat()));
}

#[test]
fn an_answer_that_is_too_long_is_an_error_and_stores_nothing() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let too_long = [(9_000_000, "is longer than 8388608 bytes")];
    // The lock is free when `rlock` has ended, not only some time later.
    for (bytes, words) in [(65_537, "rlock.max-answer"); 10].into_iter().chain(too_long) {
        let ended = run(once(&server, &place, &[], &format!("head -c {bytes} /dev/zero")));
        ended.failed(78, &["key: ", words]);
        left_nothing(&ended, &mut client);
    }
    assert_eq!(output(once(&server, &place, &[], "head -c 65536 /dev/zero")).len(), 65_536);
}

#[test]
fn a_caller_that_does_not_get_its_turn_runs_nothing() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let place = Place::new();
    for (options, code) in [(&["--no-wait"][..], 75), (&["--wait", "50ms"], 75), (&["-n", "-E", "3"], 3)] {
        run(once(&server, &place, options, "echo no")).failed(code, &["key: not free", "nothing was run"]);
    }
    let quiet = run(once(&server, &place, &["-n", "--quiet"], "echo no"));
    assert_eq!((quiet.code(), quiet.output.as_str(), quiet.errors.as_str()), (75, "", ""));
    let _waiting = start(once(&server, &place, &[], "echo no"));
    client.until_waiting(1);
    run(once(&server, &place, &["--max-waiters", "1"], "echo no")).failed(75, &["--max-waiters"]);
    assert_eq!(runs(&place), 0);
}

#[test]
fn forget_removes_the_answer_and_nothing_else() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let forget = || run(rlock(&server, &["once", "key", "--forget"])).succeeded().to_owned();
    assert_eq!(forget(), "", "there is none");
    for count in 1..=2 {
        assert_eq!(run(once(&server, &place, &[], "cat runs")).succeeded(), "ran\n".repeat(count));
        taken(&mut client, "key");
        assert_eq!(forget(), "");
        assert!(exists(&mut client, "key"));
        client.say("DEL key");
    }
}

#[test]
fn without_a_server_nothing_is_run() {
    let place = Place::new();
    let no_server = format!("redis://127.0.0.1:{}", rlock_testing::free_port());
    let words = ["-u", &no_server, "once", "key"];
    let typed = |more: &[&str]| run(place.of(bare(&[&words, more].concat())));
    typed(&["--keep", "1m", "--wait", "50ms", "touch", "it-ran"]).failed(69, &["no server answers"]);
    typed(&["--forget"]).failed(69, &["no server answers"]);
    assert!(!place.has("it-ran"));
}

/// The work was protected to its end, so the caller gets its answer; and so does the next caller, if the server has it.
#[test]
fn a_reply_that_is_lost_loses_no_answer() {
    let server = Server::start();
    let place = Place::new();
    let network = Proxy::start().unwrap();
    network.obey(Order::Lead(server.port()));
    let mut command = once(&server, &place, &[], &format!("{UNTIL_END}; echo answer"));
    command.env("RLOCK_URL", format!("redis://127.0.0.1:{}", network.port));
    let running = start(command);
    place.wait_for("log", "ready");
    network.obey(Order::CutMidReply);
    place.mark("end");
    let ended = running.end();
    assert_eq!((ended.code(), ended.output.as_str()), (0, "answer\n"), "{ended:?}");
    assert_eq!(stored(&mut server.client()), text("answer\n"));
}

#[test]
fn a_server_that_is_gone_at_the_end_is_named_and_not_waited_for_after_a_signal() {
    let mut server = Server::start();
    let place = Place::new();
    let line = format!("{UNTIL_END}; echo answer");
    let running = start(once(&server, &place, &["--connect-timeout", "100ms"], &line));
    place.wait_for("log", "ready");
    server.kill();
    place.mark("end");
    wait_until("CMD has ended", || crate::support::children(&running).is_empty());
    running.signal("TERM");
    let signalled = Instant::now();
    let ended = running.end();
    assert_eq!((ended.code(), ended.output.as_str()), (0, "answer\n"));
    assert!(signalled.elapsed() < Duration::from_secs(5), "{:?}", signalled.elapsed());
    ended.said(&["key: no server has replied yet", "in 30.0s"]);
}

#[test]
fn cmd_that_asks_for_its_own_answer_would_wait_forever() {
    let server = Server::start();
    let place = Place::new();
    let inner = format!("{:?} once key --keep 1m -- touch it-ran", env!("CARGO_BIN_EXE_rlock"));
    run(once(&server, &place, &[], &inner)).failed(78, &["it would wait for itself"]);
    assert!(!place.has("it-ran"));
}

#[test]
fn inspect_shows_a_stored_answer() {
    let (server, mut client) = Server::with_client();
    run(once(&server, &Place::new(), &[], "echo answer")).succeeded();
    let shown = run(rlock(&server, &["inspect", "key"])).succeeded().to_owned();
    assert!(shown.starts_with("key: not held, 0 waiting, an answer of 7 B for 9m5"), "{shown}");
    let json = run(rlock(&server, &["inspect", "--json", "key"])).succeeded().to_owned();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let left = json["answer_time_left_ms"].as_u64().unwrap();
    assert!(json["answer_bytes"] == 7 && left > 500_000 && left <= 600_000, "{json}");
    client.say("PERSIST rlock_answer:{key}");
    let shown = run(rlock(&server, &["inspect", "key"])).succeeded().to_owned();
    assert!(shown.contains("an answer of 7 B that does not end"), "{shown}");
}

/// None of these commands asks a server.
#[test]
fn what_does_not_fit_together_is_refused() {
    let cases: [(&[&str], &str); 9] = [
        (&["once", "key", "--", "true"], "--keep"),
        (&["once", "key", "--keep", "0", "--", "true"], "longer than 0"),
        (&["once", "key", "--keep", "1m"], "CMD"),
        (&["once", "key", "--keep", "1m", "-c", "true", "true"], "cannot be used with"),
        (&["once", "key", "--keep", "1m", "-E", "0", "true"], "as if the answer were empty"),
        (&["once", "key", "--forget", "--keep", "1m"], "cannot be used with"),
        (&["once", "key", "--forget", "--", "true"], "cannot be used with"),
        (&["once", "", "--keep", "1m", "true"], "KEY is empty"),
        (&["once", "--keep", "1m", "--", "env", "true"], "rlock once KEY -- env"),
    ];
    for (arguments, words) in cases {
        run(bare(arguments)).failed(64, &[words]);
    }
    run(bare(&["once", "", "--forget"])).failed(64, &["KEY is empty"]);
    run(bare(&["once", "key", "--keep", "1m", "--", "no-such-command"])).failed(127, &["not found in PATH"]);
}
