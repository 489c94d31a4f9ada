//! What a waiting user sees: the place in the queue and the holder, rewritten in place at a terminal, with nothing left
//! afterwards.

use crate::support::{Place, bare, looks, program, rlock, run, start, taken, url};
use crate::terminal::Terminal;
use rlock_testing::{Client, Server, wait_until};
use std::time::{Duration, Instant};

/// The holder of a client on another host.
const HOLDER: &str = "web-3:4711:5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1:1";

fn held(client: &mut Client) {
    assert_eq!(client.run(&["RLOCK.ACQUIRE", "key", HOLDER, "600000"]), rlock_testing::Reply::Nil);
}

fn waits(server: &Server, holder: &str) -> Client {
    let (mut client, mut looks) = (server.client(), server.client());
    let before = looks.figure("waiters");
    client.send(&["RLOCK.ACQUIRE", "key", holder, "600000", "WAIT", "0"]);
    looks.until_waiting(before + 1);
    client
}

#[test]
fn at_a_terminal_place_and_holder_are_shown_until_cmd_begins() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let before = [waits(&server, "a"), waits(&server, "b")];
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock run key -- echo done");
    terminal.wait_for("rlock: key: 3rd of 3 in line, held by web-3:4711, waiting for ");
    // The other waiters leave.
    drop(before);
    terminal.wait_for("rlock: key: 1st of 1 in line, held by web-3:4711, waiting for ");
    assert_eq!(client.run(&["RLOCK.RELEASE", "key", HOLDER]).as_int(), 1);
    terminal.wait_for("\ndone\nprompt>");
    assert!(!terminal.screen().contains("in line"), "{}", terminal.screen());
}

/// The output afterwards follows directly, with nothing left of the status line.
#[test]
fn the_line_is_gone_also_when_the_time_is_over_or_a_key_ends_it() {
    let server = Server::start();
    held(&mut server.client());
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock run --wait 4s key true; echo code $?");
    terminal.wait_for("1st of 1 in line");
    terminal
        .wait_for("\nrlock: key: not free within 4.0s, so nothing was run; rlock inspect shows the holder\ncode 75");
    assert!(!terminal.screen().contains("in line"), "{}", terminal.screen());
    terminal.enter("rlock run key true");
    terminal.wait_for("1st of 1 in line");
    terminal.press("C-c");
    terminal.wait_until("the line is gone", |screen| !screen.contains("in line"));
    server.client().until_waiting(0);
}

/// A job in the background would write into what is typed.
#[test]
fn in_the_background_it_is_silent() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("set -m; rlock run key -- echo done & echo ready");
    terminal.wait_for("\nready");
    wait_until("it has asked twice", || looks(&mut client) >= 2);
    assert!(!terminal.screen().contains("in line"), "{}", terminal.screen());
    terminal.enter("fg");
    terminal.wait_for("1st of 1 in line");
    client.run(&["RLOCK.RELEASE", "key", HOLDER]);
    terminal.wait_for("\ndone");
}

#[test]
fn a_screen_that_is_narrow_has_one_line_of_it() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.resize(40, 10);
    terminal.enter("rlock run key -- echo done");
    terminal.wait_for("rlock: key: 1st of 1 in line, held by …");
    client.run(&["RLOCK.RELEASE", "key", HOLDER]);
    terminal.wait_for("\ndone");
    assert!(!terminal.screen().contains("in line"), "{}", terminal.screen());
}

#[test]
fn quiet_sends_no_inspect() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let (quiet, other) = (Terminal::open(&server, &[]), Terminal::open(&server, &[]));
    quiet.enter("rlock run --quiet key true");
    client.until_waiting(1);
    other.enter("rlock run key true");
    other.wait_for("2nd of 2 in line");
    // By now the quiet one would have shown it as well.
    wait_until("the other one has asked twice", || looks(&mut client) >= 2);
    assert!(!quiet.screen().contains("in line"), "{}", quiet.screen());
}

#[test]
fn without_a_terminal_the_place_is_shown_only_on_request() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let silent = start(rlock(&server, &["run", "key", "--", "echo", "done"]));
    client.until_waiting(1);
    let verbose = start(rlock(&server, &["run", "-v", "key", "--", "echo", "done"]));
    wait_until("one has asked twice", || looks(&mut client) >= 2);
    client.run(&["RLOCK.RELEASE", "key", HOLDER]);
    assert_eq!(silent.end().succeeded(), "done\n");
    let ended = verbose.end();
    assert_eq!((ended.code(), ended.output.as_str()), (0, "done\n"));
    // However often it is updated, it is one line: a second one would come after ten seconds.
    ended.said(&["key: 2nd of 2 in line, held by web-3:4711, waiting for "]);
    run(rlock(&server, &["run", "-v", "-q", "key", "true"])).failed(64, &["--quiet"]);
}

#[test]
fn changes_are_shown_again_at_longer_intervals() {
    let (server, mut client) = Server::with_client();
    held(&mut client);
    let first = waits(&server, "a");
    let place = Place::new();
    let script = format!("exec {} run -v key true 2>log", env!("CARGO_BIN_EXE_rlock"));
    let mut command = program("sh", &["-c", &script]);
    command.env("RLOCK_URL", url(&server));
    let mut waiting = start(place.of(command));
    let printed = || place.lines("log");
    wait_until("it is reported", || printed().len() == 1);
    let shown_at = Instant::now();
    drop(first);
    wait_until("it is printed again", || printed().len() == 2);
    assert!(shown_at.elapsed() > Duration::from_secs(5), "{:?}", printed());
    assert!(printed()[0].contains("2nd of 2 in line") && printed()[1].contains("1st of 1 in line"), "{:?}", printed());
    assert!(waiting.is_running());
    waiting.signal("TERM");
}

#[test]
fn in_a_long_queue_only_the_first_are_looked_at_and_many_readers_are_counted() {
    let (server, mut client) = Server::with_client();
    for reader in ["a", "b", "c"] {
        client.run(&["RLOCK.RACQUIRE", "key", reader, "600000"]);
    }
    client.say("RLOCK.EVENTS the-session-of-many TTL 600000");
    for ticket in 1..=150 {
        let ticket = format!("RLOCK.WACQUIRE key many-{ticket} 600000 WAIT 0 SESSION the-session-of-many {ticket}");
        client.say(&ticket);
    }
    let verbose = start(rlock(&server, &["run", "-v", "--write", "key", "true"]));
    wait_until("it has asked twice", || looks(&mut client) >= 2);
    verbose.signal("TERM");
    let ended = verbose.end();
    assert_eq!(ended.code(), 143);
    ended.said(&["key: behind the first 100 of 151 in line, held by ", " and 2 more, waiting for "]);
}

/// `rlock` waits without this right, too.
#[test]
fn without_the_right_to_inspect_nothing_is_shown() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "app:key");
    let rights = "+rlock.acquire +rlock.release +rlock.renew +rlock.events +rlock.cancel";
    client.say(&format!("ACL SETUSER app on >secret ~app:* {rights}"));
    let mut command = bare(&["run", "-v", "app:key", "--", "echo", "done"]);
    command.env("RLOCK_URL", format!("redis://app@127.0.0.1:{}", server.port())).env("RLOCK_PASSWORD", "secret");
    let waiting = start(command);
    wait_until("it was refused", || client.say("ACL LOG").words().contains(&"rlock.inspect"));
    crate::support::released(&mut client, "app:key");
    assert_eq!(waiting.end().succeeded(), "done\n");
}
