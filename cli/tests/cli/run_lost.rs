//! The lock is lost while CMD runs.

use crate::support::{Place, Running, children, exists, is_alive, rlock, run, start};
use rlock_testing::network::{Order, Proxy};
use rlock_testing::{Server, wait_until};
use std::time::{Duration, Instant};

/// A CMD that runs this when it gets TERM.
fn working(server: &Server, place: &Place, options: &[&str], at_term: &str) -> Running {
    working_on("1s", server, place, options, at_term)
}

fn working_on(lease: &str, server: &Server, place: &Place, options: &[&str], at_term: &str) -> Running {
    let script = format!(
        "trap '{at_term}' TERM; sleep 600 & echo $! >started; echo ready >>log; while [ -e here ]; do wait; done"
    );
    let arguments = [&["run", "--lease", lease], options, &["key", "--", "sh", "-c", &script]].concat();
    let running = start(place.of(rlock(server, &arguments)));
    place.wait_for("log", "ready");
    running
}

#[test]
fn a_lock_that_is_taken_away_ends_cmd_with_a_code_of_its_own() {
    let server = Server::start();
    let place = Place::new();
    let running = working(&server, &place, &["--grace", "10m"], "echo TERM >>log; exit 0");
    server.client().say("DEL key");
    running.end().failed(76, &["key: the lock was lost", "so sh was sent TERM"]);
    assert_eq!(place.lines("log"), ["ready", "TERM"]);
    assert!(!is_alive(&place.lines("started").concat()), "what CMD has started has ended, too");
}

#[test]
fn a_cmd_that_does_not_end_within_the_grace_is_killed_with_its_children() {
    let server = Server::start();
    let place = Place::new();
    let script = "trap 'echo TERM >>log' TERM; (trap '' TERM; echo ready >>log; \
                  while [ -e here ]; do sleep 0.01; done) & echo $! >started; while [ -e here ]; do wait; done";
    let arguments = ["run", "--lease", "1s", "--grace", "1500ms", "key", "--", "sh", "-c", script];
    let running = start(place.of(rlock(&server, &arguments)));
    place.wait_for("log", "ready");
    let taken = Instant::now();
    server.client().say("DEL key");
    place.wait_for("log", "TERM");
    let ended = running.end();
    assert!(taken.elapsed() >= Duration::from_millis(1_500), "it had its grace");
    assert_eq!(ended.code(), 76);
    let lines: Vec<_> = ended.errors.lines().collect();
    assert!(
        lines.len() == 2
            && lines[0].contains("sent TERM")
            && lines[1].contains("sh did not end within 1.5s: it was killed"),
        "{lines:?}"
    );
    wait_until("all that CMD has started has ended", || !is_alive(&place.lines("started").concat()));
}

/// CMD's shell ends at once, and what it has started takes its time.
#[test]
fn the_grace_is_for_every_child_of_cmd() {
    let server = Server::start();
    let place = Place::new();
    let script = "(exec 2>/dev/null; \
                  trap 'while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; echo saved >>log; exit' TERM; \
                  echo ready >>log; \
                  while [ -e here ]; do sleep 0.01; done) & wait";
    let arguments = ["run", "--lease", "1s", "--grace", "10m", "key", "--", "sh", "-c", script];
    let mut running = start(place.of(rlock(&server, &arguments)));
    place.wait_for("log", "ready");
    server.client().say("DEL key");
    wait_until("CMD itself has ended", || children(&running).is_empty());
    assert!(running.is_running(), "it waits for what CMD has started");
    place.mark("end");
    running.end().failed(76, &["sent TERM"]);
    assert_eq!(place.lines("log"), ["ready", "saved"]);
}

/// A process that left CMD's process group cannot be distinguished from unrelated ones.
#[test]
fn a_child_in_its_own_session_is_not_ended() {
    let server = Server::start();
    let place = Place::new();
    let script = "setsid sh -c 'echo $$ >started; echo ready >>log; while [ -e here ]; do sleep 0.01; done' & wait";
    let running = start(place.of(rlock(&server, &["run", "--lease", "1s", "key", "--", "sh", "-c", script])));
    place.wait_for("log", "ready");
    server.client().say("DEL key");
    running.end().failed(76, &["sent TERM"]);
    assert!(is_alive(&place.lines("started").concat()));
}

#[test]
fn cmd_is_ended_while_it_is_stopped() {
    let server = Server::start();
    let place = Place::new();
    let script =
        "echo $$ >id; trap 'echo TERM >>log; exit' TERM; echo ready >>log; while [ -e here ]; do sleep 0.01; done";
    let running =
        start(place.of(rlock(&server, &["run", "--lease", "1s", "--grace", "10m", "key", "sh", "-c", script])));
    place.wait_for("log", "ready");
    crate::support::signal("STOP", &place.lines("id").concat());
    server.client().say("DEL key");
    running.end().failed(76, &["sent TERM"]);
    assert_eq!(place.lines("log"), ["ready", "TERM"]);
}

/// The loss of the network is noticed without the network: CMD got its signal before the server could grant the lock to
/// the next client.
#[test]
fn a_server_that_does_not_answer_is_a_lock_that_is_lost_before_its_lease_is_over() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let running = working(&server, &place, &["--grace", "0"], "exit 0");
    let waiting = start(place.of(rlock(&server, &["run", "key", "--", "sh", "-c", "echo next >>log"])));
    client.until_waiting(1);
    server.freeze();
    let ended = running.end();
    assert_eq!(ended.code(), 76);
    assert_eq!(place.lines("log"), ["ready"]);
    wait_until("all that CMD has started has ended", || !is_alive(&place.lines("started").concat()));
    server.thaw();
    waiting.end();
    assert!(place.lines("log").contains(&"next".to_owned()) && !exists(&mut client, "key"));
}

/// The lock was taken away, and CMD was done before that was noticed: this must not look like success.
#[test]
fn a_loss_that_shows_only_at_the_end_counts() {
    let server = Server::start();
    let cases = [
        ("DEL key", ["(with 0)", "not held: it was broken, deleted"]),
        ("SET key text", ["(with 0)", "its name now stores something else (WRONGTYPE"]),
    ];
    for (replacement, words) in cases {
        let place = Place::new();
        let script = "touch running; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";
        let running = start(place.of(rlock(&server, &["run", "--lease", "10m", "key", "sh", "-c", script])));
        wait_until("CMD runs", || place.has("running"));
        server.client().say(replacement);
        place.mark("end");
        let ended = running.end();
        ended.failed(76, &["key: the lock was lost before sh had ended"]);
        ended.said(&words);
    }
}

/// If the message wakes its reader up, it has to say what to do.
#[test]
fn why_the_lock_was_lost_is_said_in_the_same_line() {
    const KICK: &str = "CLIENT KILL TYPE normal SKIPME yes";
    let cases: [(&[&str], &[&str]); 6] = [
        (&["RLOCK.BREAK key"], &["not held: it was broken, deleted"]),
        (&["SET key text"], &["its name now stores something else (WRONGTYPE"]),
        (&["ACL SETUSER default -rlock.renew"], &["could not be renewed: refused: NOPERM", "rlock.renew", "ACL"]),
        (&["CONFIG SET requirepass new", KICK], &["could not be renewed", "wants a password"]),
        (&["DEBUG SLEEP 4"], &["could not be renewed: no server answers", "timed out"]),
        (&["SHUTDOWN NOSAVE"], &["could not be renewed: no server answers", "is it up"]),
    ];
    let running = cases.map(|(trouble, words)| {
        let (server, place) = (Server::start(), Place::new());
        // The lease is long enough that a renewal fails before it ends, even if this machine has little time for rlock.
        (working_on("3s", &server, &place, &[], "exit 0"), server, place, trouble, words)
    });
    let clients = running.each_ref().map(|(_, server, _, trouble, _)| {
        let mut client = server.client();
        for command in *trouble {
            // Without waiting for an answer, which a server that ends does not give.
            client.send(&command.split(' ').collect::<Vec<_>>());
        }
        client
    });
    for (running, _server, _place, _, words) in running {
        let ended = running.end();
        ended.failed(76, &["key: the lock was lost", "so sh was sent TERM"]);
        ended.said(words);
    }
    drop(clients);
}

/// Everything stalled, so no renewal had failed. It is stopped long before the first renewal, which could fail.
#[test]
fn a_lease_that_ended_while_rlock_was_stopped_is_reported_so() {
    let server = Server::start();
    let place = Place::new();
    let script = "echo ready >>log; exec sleep 600";
    let running = start(place.of(rlock(&server, &["run", "--lease", "5s", "key", "--", "sh", "-c", script])));
    place.wait_for("log", "ready");
    running.signal("STOP");
    wait_until("the lease has ended", || !exists(&mut server.client(), "key"));
    running.signal("CONT");
    running.end().failed(76, &["the lock was lost", "stalled"]);
}

/// A server without persistence restarts. The next client has the lock at once, and no renewal is due for minutes.
#[test]
fn a_server_that_comes_back_without_the_lock_ends_cmd() {
    let server = Server::start();
    let place = Place::new();
    let script = "echo ready >>log; exec sleep 600";
    let running = start(place.of(rlock(&server, &["run", "--lease", "10m", "key", "--", "sh", "-c", script])));
    place.wait_for("log", "ready");
    let server = server.crash().start();
    run(rlock(&server, &["run", "--no-wait", "key", "--", "true"])).succeeded();
    running.end().failed(76, &["key: the lock was lost", "broken, deleted or forgotten"]);
}

/// Only the reply that does not come says whether the lock was held until the end.
#[test]
fn what_is_not_known_is_no_success() {
    let server = Server::start();
    let place = Place::new();
    let network = Proxy::start().unwrap();
    network.obey(Order::Lead(server.port()));
    let script = "echo ready >>log; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";
    let mut command = rlock(&server, &["run", "key", "--", "sh", "-c", script]);
    command.env("RLOCK_URL", format!("redis://127.0.0.1:{}", network.port));
    let running = start(place.of(command));
    place.wait_for("log", "ready");
    network.obey(Order::CutMidReply);
    place.mark("end");
    running.end().failed(76, &["key: it is not known whether sh had the lock until it ended (with 0)", "broke"]);
    assert!(!exists(&mut server.client(), "key"));
}
