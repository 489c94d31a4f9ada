//! `rlock run` gets signals, or is killed.

use crate::support::{Place, Running, children, exists, is_alive, released, rlock, run, start, taken};
use rlock_testing::{Server, wait_until};
use std::time::{Duration, Instant};

const SIGNALS: [(&str, i32); 7] =
    [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3), ("USR1", 10), ("USR2", 12), ("ALRM", 14)];

/// A CMD that writes each signal's name, and ends with 7 when there is a file `end`.
fn listening(server: &Server, place: &Place, lease: &str) -> Running {
    let traps: String = SIGNALS.map(|(name, _)| format!("trap 'echo {name} >>log' {name}; ")).concat();
    let script = format!("{traps} echo ready >>log; while [ -e here ] && ! [ -e end ]; do :; done; exit 7");
    let running = start(place.of(rlock(server, &["run", "--lease", lease, "key", "--", "sh", "-c", &script])));
    place.wait_for("log", "ready");
    running
}

#[test]
fn signals_are_passed_on() {
    let server = Server::start();
    let place = Place::new();
    let running = listening(&server, &place, "30s");
    for (count, (name, _)) in SIGNALS.iter().enumerate() {
        running.signal(name);
        place.wait_for("log", name);
        assert_eq!(place.lines("log").len(), count + 2, "each comes once");
    }
    assert!(exists(&mut server.client(), "key"), "CMD runs, so the lock is held");
    place.mark("end");
    assert_eq!(running.end().code(), 7);
}

/// A signal that would end it at a terminal also ends what it has started; others are for CMD only.
#[test]
fn without_a_terminal_cmd_has_a_process_group() {
    let server = Server::start();
    let place = Place::new();
    let script =
        "trap 'echo USR1 >>log' USR1; sleep 600 & echo $! >started; echo ready >>log; while [ -e here ]; do wait; done";
    let running = start(place.of(rlock(&server, &["run", "key", "--", "sh", "-c", script])));
    place.wait_for("log", "ready");
    let started = place.lines("started").concat();
    running.signal("USR1");
    place.wait_for("log", "USR1");
    assert!(is_alive(&started));
    running.signal("TERM");
    assert_eq!(running.end().code(), 143);
    wait_until("what CMD has started has ended", || !is_alive(&started));
}

#[test]
fn a_signal_while_waiting_leaves_the_queue_and_runs_nothing() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    taken(&mut client, "key");
    for (name, number) in SIGNALS {
        let waiting = start(place.of(rlock(&server, &["run", "key", "--", "touch", "it-ran"])));
        client.until_waiting(1);
        waiting.signal(name);
        let ended = waiting.end();
        assert_eq!((ended.code(), ended.output.as_str(), ended.errors.as_str()), (128 + number, "", ""), "{name}");
        assert_eq!(client.figure("waiters"), 0, "{name}");
    }
    released(&mut client, "key");
    assert!(!exists(&mut client, "key") && !place.has("it-ran"));
}

/// The grant and the signal come at the same time: whichever is first, the lock does not stay held until its lease ends.
#[test]
fn a_grant_that_comes_with_the_signal_is_released() {
    let (server, mut client) = Server::with_client();
    for _ in 0..20 {
        taken(&mut client, "key");
        let waiting = start(rlock(&server, &["run", "--lease", "10m", "key", "--", "sleep", "600"]));
        client.until_waiting(1);
        released(&mut client, "key");
        waiting.signal("TERM");
        assert_eq!(waiting.end().code(), 143);
        assert!(!exists(&mut client, "key") && client.figure("waiters") == 0, "something stays behind");
    }
}

/// `nohup` and `&` in scripts start programs with ignored signals. We must not change that.
#[test]
fn what_is_ignored_stays_ignored() {
    let server = Server::start();
    let place = Place::new();
    let script = "echo ready >>log; while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";
    let inner = format!("{:?} run key -- sh -c '{script}'", env!("CARGO_BIN_EXE_rlock"));
    let mut command = rlock(&server, &["run", "outer", "--", "sh", "-c", &format!("trap '' HUP INT; exec {inner}")]);
    command.current_dir(place.path());
    let running = start(command);
    place.wait_for("log", "ready");
    running.signal("HUP");
    running.signal("INT");
    running.signal("USR1");
    assert_eq!(running.end().code(), 138, "the first that ends it is the one that is not ignored");
}

/// The lock is not renewed any more: CMD gets a signal at once, and the lock is free when its lease ends, not before.
#[test]
fn after_a_kill_the_lock_ends_with_its_lease_and_cmd_gets_a_signal() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    let running = listening(&server, &place, "5s");
    let waiting = start(rlock(&server, &["run", "key", "--", "echo", "next"]));
    client.until_waiting(1);
    running.signal("KILL");
    place.wait_for("log", "TERM");
    assert!(!waiting_has_run(&mut client), "the lease is not over");
    let expiry = client.expiry("key");
    assert!(expiry > client.time_ms() && expiry <= client.time_ms() + 5_000);
    assert_eq!(waiting.end().succeeded(), "next\n");
    assert!(client.time_ms() >= expiry, "no other holder before the lease was over");
    place.mark("end");
    assert!(!running.end().status.success());
    run(rlock(&server, &["run", "-n", "key", "true"])).succeeded();
}

fn waiting_has_run(client: &mut rlock_testing::Client) -> bool {
    client.figure("waiters") == 0
}

/// The client tries for 10 s to release the lock at a dead server. A user need not wait for that.
#[test]
fn a_signal_after_cmd_ends_the_wait_for_a_dead_server() {
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        let mut server = Server::start();
        let place = Place::new();
        let running = listening(&server, &place, "10m");
        server.kill();
        place.mark("end");
        wait_until("CMD has ended", || children(&running).is_empty());
        running.signal("USR1");
        running.signal(name);
        let signalled = Instant::now();
        running.end().failed(7, &["key: not released", "sh had ended before its lease", "in 10m00s at most"]);
        assert!(signalled.elapsed() < Duration::from_secs(5), "{name}: {:?}", signalled.elapsed());
    }
}

/// The signal that ends CMD may reach `rlock` twice, or only after it has ended CMD.
#[test]
fn a_signal_does_not_keep_a_server_that_is_well_from_its_lock() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    for _ in 0..20 {
        let script = "echo ready >>log; exec sleep 600";
        let running = start(place.of(rlock(&server, &["run", "--lease", "10m", "key", "--", "sh", "-c", script])));
        place.wait_for("log", "ready");
        for name in ["TERM", "INT", "HUP", "QUIT"] {
            running.signal(name);
        }
        let ended = running.end();
        assert_eq!(ended.errors, "");
        assert!(ended.code() > 128 && !exists(&mut client, "key"), "{ended:?}");
        std::fs::remove_file(place.file("log")).unwrap();
    }
}

/// They end no program, so they do not end a wait either.
#[test]
fn signals_that_end_nothing_are_passed_on_and_end_no_wait() {
    let (server, mut client) = Server::with_client();
    let place = Place::new();
    taken(&mut client, "key");
    let script = "trap 'echo CONT >>log' CONT; trap 'echo WINCH >>log' WINCH; echo ready >>log; \
                  while [ -e here ] && ! [ -e end ]; do sleep 0.01; done; exit 7";
    let running = start(place.of(rlock(&server, &["run", "key", "--", "sh", "-c", script])));
    client.until_waiting(1);
    running.signal("CONT");
    running.signal("WINCH");
    released(&mut client, "key");
    place.wait_for("log", "ready");
    std::fs::write(place.file("log"), "").unwrap();
    for name in ["CONT", "WINCH"] {
        running.signal(name);
        place.wait_for("log", name);
    }
    place.mark("end");
    assert_eq!(running.end().code(), 7);
}

/// A stopped process cannot react to a signal before it continues.
#[test]
fn a_cmd_that_is_stopped_goes_on_in_order_to_end() {
    let server = Server::start();
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        let place = Place::new();
        let script = format!(
            "echo $$ >id; trap 'echo {name} >>log; exit 5' {name}; echo ready >>log; \
             while [ -e here ]; do sleep 0.01; done"
        );
        let running = start(place.of(rlock(&server, &["run", "key", "sh", "-c", &script])));
        place.wait_for("log", "ready");
        crate::support::signal("STOP", &place.lines("id").concat());
        running.signal(name);
        assert_eq!(running.end().code(), 5);
        assert_eq!(place.lines("log"), ["ready", name]);
    }
}
