//! With exactly the rights in the manual each command works; without one of them it does not.

use crate::support::{Place, bare, run, start};
use rlock_testing::{Client, Server, wait_until};

const FINE: (i32, bool) = (0, true);

/// The manual's row for a `run` that has to wait.
const WAITING: &str = "run, when it waits";

/// A CMD that runs as long as the test needs.
const KEPT: &str = "while [ -e here ] && ! [ -e end ]; do sleep 0.01; done";

/// Each row of the manual's table: the command, and the rights.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let manual = include_str!("../../../docs/command-line.md");
    let (_, table) = manual.split_once("| command | rights |\n|---|---|\n").expect("the table");
    let rows = table.lines().map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.map(|(command, rights)| (command, rights.split(['`', ' ']).filter(|it| it.starts_with(['+', '~'])).collect()))
        .collect()
}

fn allow(client: &mut Client, rights: &[&str]) {
    client.say("ACL DELUSER app");
    // The table escapes `|`, which would end the cell.
    let rights = rights.join(" ").replace("\\|", "|");
    let reply = client.say(&format!("ACL SETUSER app on >secret ~app:* {rights}"));
    assert_eq!(reply.words(), ["OK"]);
}

fn app(server: &Server, arguments: &[&str]) -> std::process::Command {
    let mut command = bare(arguments);
    command.env("RLOCK_URL", format!("redis://app@127.0.0.1:{}", server.port())).env("RLOCK_PASSWORD", "secret");
    command
}

/// The exit code of a command that uses all its rights, and whether it was silent.
fn outcome(server: &Server, client: &mut Client, command: &str) -> (i32, bool) {
    if command == "run" || command == "run --read, --write" {
        let sides = if command == "run" {
            vec![&["app:key"][..]]
        } else {
            vec![&["--read", "app:key"][..], &["--write", "app:key"]]
        };
        return sides.into_iter().map(|side| kept(server, client, side)).find(|it| *it != FINE).unwrap_or(FINE);
    }
    if let "run --slots" | "run --all" = command {
        let (option, key) =
            if command == "run --all" { ("--all", "app:key,app:more") } else { ("--slots=2", "app:key") };
        return kept(server, client, &[option, key]);
    }
    if command == "once" {
        return answered(server, client);
    }
    if command == WAITING {
        return waited(server, client);
    }
    client.say("RLOCK.ACQUIRE app:held somebody 600000");
    let arguments: Vec<_> = match command {
        "run --replicas" => vec!["run", "--lease", "1500ms", "--replicas", "1", "app:new", "true"],
        "lock" => vec!["lock", "--lease", "1m", "app:new"],
        "lock, after a wait" => return waited_for(server, client),
        "lock --detach" => vec!["lock", "--detach", "--lease", "1m", "app:new"],
        "adopt" => return adopted(server, client),
        "once --forget" => vec!["once", "app:held", "--forget"],
        "unlock" => vec!["unlock", "app:held", "somebody"],
        "renew" => vec!["renew", "--lease", "1m", "app:held", "somebody"],
        "inspect" => vec!["inspect", "app:held"],
        "break" => vec!["break", "--yes", "app:held"],
        _ => command.split(' ').collect(),
    };
    let ended = run(app(server, &arguments));
    client.say("DEL app:new");
    (ended.code(), ended.errors.is_empty())
}

/// It waits first, and is granted the lock when the other holder releases it.
fn waited_for(server: &Server, client: &mut Client) -> (i32, bool) {
    client.say("RLOCK.ACQUIRE app:key somebody 600000");
    let mut waits = start(app(server, &["lock", "--lease", "1m", "app:key"]));
    wait_until("it waits, or ends", || client.figure("waiters") == 1 || !waits.is_running());
    client.say("RLOCK.RELEASE app:key somebody");
    let log = client.say("ACL LOG");
    wait_until("it ends, or is refused", || !waits.is_running() || client.say("ACL LOG") != log);
    let ended = waits.end();
    client.say("DEL app:key");
    client.until_waiting(0);
    (ended.code(), ended.errors.is_empty())
}

/// Waits, gets a signal, and leaves the queue before it ends.
fn waited(server: &Server, client: &mut Client) -> (i32, bool) {
    client.say("RLOCK.ACQUIRE app:key somebody 600000");
    let mut waits = start(app(server, &["run", "app:key", "true"]));
    wait_until("it waits, or ends", || client.figure("waiters") == 1 || !waits.is_running());
    if waits.is_running() {
        waits.signal("TERM");
    }
    let (ended, has_left) = (waits.end(), client.figure("waiters") == 0);
    client.say("DEL app:key");
    client.until_waiting(0);
    (ended.code(), ended.errors.is_empty() && has_left)
}

/// The answer is stored; and a CMD that fails leaves a free lock.
fn answered(server: &Server, client: &mut Client) -> (i32, bool) {
    let once = ["once", "app:key", "--keep", "10m"];
    let kept = kept_by(server, client, &once);
    let is_stored = client.say("DEL rlock_answer:{app:key}").as_int() == 1;
    let failed = run(app(server, &[&once[..], &["false"]].concat()));
    let is_free = client.say("DEL app:key").as_int() == 0;
    (kept.0, kept.1 && is_stored && failed.code() == 1 && is_free)
}

/// It is released at the end.
fn adopted(server: &Server, client: &mut Client) -> (i32, bool) {
    let mut command = app(server, &["adopt", "true"]);
    command.env("RLOCK_DETACHED", "rlock1/plain/60000/0/-/somebody/app:held");
    let ended = run(command);
    let is_free = client.say("DEL app:held").as_int() == 0;
    (ended.code(), ended.errors.is_empty() && is_free)
}

/// Runs until the lease was renewed, or until `rlock` ended without it.
fn kept(server: &Server, client: &mut Client, lock: &[&str]) -> (i32, bool) {
    kept_by(server, client, &[&["run"], lock].concat())
}

fn kept_by(server: &Server, client: &mut Client, command: &[&str]) -> (i32, bool) {
    let place = Place::new();
    let mut arguments = [command, &["--lease", "1500ms"]].concat();
    arguments.extend(["sh", "-c", KEPT]);
    let mut running = start(place.of(app(server, &arguments)));
    let mut first = None;
    wait_until("it is renewed, or ends", || {
        let expiry = client.expiry("app:key");
        let first = if expiry > 0 { *first.get_or_insert(expiry) } else { expiry };
        !running.is_running() || expiry > first + 150
    });
    place.mark("end");
    let ended = running.end();
    client.say("DEL app:key");
    (ended.code(), ended.errors.is_empty())
}

#[test]
fn no_more_rights_are_needed_than_the_manual_says() {
    let (server, mut client) = Server::with_client();
    let rows = rows();
    assert_eq!(rows.len(), 20);
    // The doctor has to find nothing wrong except the missing rights.
    client.say("CONFIG SET appendonly yes");
    for (command, rights) in rows.iter().filter(|(command, _)| *command != "top") {
        let of_run = &rows[0].1[..];
        let (beside, fine): (&[&str], _) = match *command {
            WAITING => (of_run, (143, true)),
            "lock, after a wait" => (&["+rlock.acquire"], FINE),
            // No replica confirms, which is another failure than a missing right.
            "run --replicas" => (of_run, (69, false)),
            _ => (&[], FINE),
        };
        allow(&mut client, &[beside, rights].concat());
        assert_eq!(outcome(&server, &mut client, command), fine, "{command} with {rights:?}");
        for missing in rights {
            let fewer: Vec<_> = rights.iter().copied().filter(|right| right != missing).collect();
            allow(&mut client, &[beside, &fewer].concat());
            assert_ne!(outcome(&server, &mut client, command), fine, "{command} without {missing}");
        }
    }
}

#[test]
fn top_needs_no_more_either() {
    let (server, mut client) = Server::with_client();
    let rows = rows();
    let (_, rights) = rows.iter().find(|(command, _)| *command == "top").unwrap();
    allow(&mut client, rights);
    for key in ["app:key", "other"] {
        client.run(&["RLOCK.ACQUIRE", key, "somebody", "600000"]);
    }
    let mut waiting = [server.client(), server.client()];
    for (waiting, key) in waiting.iter_mut().zip(["app:key", "other"]) {
        waiting.send(&["RLOCK.ACQUIRE", key, "waiter", "600000", "WAIT", "0"]);
    }
    client.until_waiting(2);
    let top = run(app(&server, &["top", "--batch", "--count", "1", "--interval", "100ms"])).succeeded().to_owned();
    assert!(top.lines().any(|line| line.starts_with("app:key") && line.contains("somebody")), "{top}");
    assert!(!top.lines().any(|line| line.starts_with("other")), "only what this user may see: {top}");
}
