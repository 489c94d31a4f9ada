//! What a cron job, or a tired reader, could take for something else: for success, for a failure that passes, for a wait
//! that has an end.

use crate::support::{Place, bare, exists, program, released, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Server, Watched, free_port, wait_until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

#[test]
fn a_replica_does_not_claim_that_there_are_no_waiters() {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    taken(&mut master.client(), "key");
    let _waits = waiting(&master);
    wait_until("it has the lock", || exists(&mut replica.client(), "key"));
    const WORDS: &[&str] = &["is a replica, and does not know the waiters", "ask its master"];
    for command in [&["ls"][..], &["ls", "--held"], &["ls", "--json"], &["top", "--batch", "--count", "1"]] {
        run(rlock(&replica, command)).failed(69, WORDS);
    }
    let ended = run(rlock(&replica, &["inspect", "key"]));
    assert_eq!(ended.code(), 69, "{ended:?}");
    ended.said(WORDS);
    assert!(ended.output.contains("somebody") && !ended.output.contains("0 waiting"), "{ended:?}");
    let ended = run(rlock(&replica, &["inspect", "--json", "key"]));
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(ended.output.contains("\"waiter_count\": null") && ended.output.contains("\"waiters\": null"), "{ended:?}");
    run(rlock(&replica, &["inspect", "nothing"])).failed(69, WORDS);
    // The master knows the waiters.
    assert!(run(rlock(&master, &["inspect", "key"])).succeeded().contains("1 waiting"));
}

fn waiting(server: &Server) -> rlock_testing::Client {
    let mut client = server.client();
    client.send(&["RLOCK.ACQUIRE", "key", "waiter", "600000", "WAIT", "0"]);
    server.client().until_waiting(1);
    client
}

/// A script in which `$0` is rlock.
fn nested(server: &Server, place: &Place, script: &str) -> Command {
    let mut command = program("sh", &["-c", script, env!("CARGO_BIN_EXE_rlock")]);
    command
        .env("RLOCK_URL", crate::support::url(server))
        .env_remove("RLOCK_HOLDER")
        .env_remove("RLOCK_KEY")
        .env_remove("RLOCK_HOLDERS");
    place.of(command)
}

#[test]
fn a_command_does_not_wait_for_itself() {
    let (server, place) = (Server::start(), Place::new());
    const WORDS: &[&str] = &["a: is held by what this runs under", "would wait for itself"];
    for script in [
        "\"$0\" run a -- \"$0\" run a -- true",
        "\"$0\" run a -- \"$0\" run --wait 10m a -- true",
        "\"$0\" run a -- \"$0\" run --all b,a -- true",
        "\"$0\" run --all a,b -- \"$0\" run a -- true",
        "\"$0\" run a -- \"$0\" run b -- \"$0\" run a -- true",
        "\"$0\" run a -- \"$0\" lock --lease 1m a",
        "\"$0\" run a -- \"$0\" hold a",
        "\"$0\" run --write a -- \"$0\" run --read a -- true",
        "\"$0\" run --read a -- \"$0\" run --write a -- true",
        "\"$0\" run --slots 1 a -- \"$0\" run --slots 1 a -- true",
        "eval \"$(\"$0\" lock --lease 10m a)\"; \"$0\" run a -- true; code=$?; \"$0\" unlock a; exit $code",
    ] {
        let ended = run(nested(&server, &place, script));
        ended.failed(78, WORDS);
        assert_eq!(server.client().keys(), [""; 0], "{script}");
    }
}

#[test]
fn what_ends_by_itself_is_not_refused() {
    let (server, place) = (Server::start(), Place::new());
    for (script, code) in [
        ("\"$0\" run a -- \"$0\" run -n a -- true", 75),
        ("\"$0\" run a -- \"$0\" run b -- true", 0),
        ("\"$0\" run --read a -- \"$0\" run --read a -- true", 0),
        ("\"$0\" run --slots 2 a -- \"$0\" run --slots 2 a -- true", 0),
        // The holder in the environment does not hold it any more.
        ("RLOCK_KEY=a RLOCK_HOLDER=gone \"$0\" run a -- true", 0),
    ] {
        let ended = run(nested(&server, &place, script));
        assert_eq!(ended.code(), code, "{script}: {ended:?}");
    }
}

/// Without the right to inspect, the environment is believed.
#[test]
fn without_the_right_to_look_it_does_not_wait_for_itself_either() {
    let (server, place) = (Server::start(), Place::new());
    server.client().say("ACL SETUSER default -rlock.inspect");
    run(nested(&server, &place, "\"$0\" run a -- \"$0\" run a -- true")).failed(78, &["would wait for itself"]);
    run(nested(&server, &place, "\"$0\" run a -- \"$0\" run b -- true")).succeeded();
}

/// It is asked again like a server that is full, or a replica.
#[test]
fn a_server_that_is_not_there_yet_is_asked_again() {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let address = format!("redis://127.0.0.1:{port}");
    let waits = start(bare(&["-u", &address, "run", "--wait", "1m", "key", "--", "echo", "done"]));
    drop(listener.accept().unwrap());
    drop(listener);
    let _server = Server::prepare().port(port).start();
    assert_eq!(waits.end().succeeded(), "done\n");
}

/// A command that does not wait, or only briefly, does not wait for a server either.
#[test]
fn a_missing_server_is_reported_in_time() {
    let address = format!("redis://127.0.0.1:{}", free_port());
    for wait in [&["-n"][..], &["--wait", "0"], &["--wait", "200ms"]] {
        let ended = run(bare(&[&["-u", &address, "run"], wait, &["key", "true"]].concat()));
        ended.failed(69, &["key: no server answers at 127.0.0.1:", "is it up", "RLOCK_URL"]);
    }
}

#[test]
fn at_a_terminal_it_says_what_it_waits_for() {
    let terminal = Terminal::open(&Server::start(), &[]);
    terminal.enter(&format!("rlock -u redis://127.0.0.1:{} run --wait 3s key true; echo code $?", free_port()));
    terminal.wait_for("rlock: key: not there yet (Connection refused");
    terminal.wait_for("code 69");
    assert!(!terminal.screen().contains("not there yet"), "{}", terminal.screen());
}

fn through(sentinels: &[Server], name: &str) -> String {
    let hosts: Vec<_> = sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    format!("redis+sentinel://{}/{name}", hosts.join(","))
}

fn with_password(address: &str, password: &str, arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command.env("RLOCK_URL", address).env("RLOCK_PASSWORD", password);
    command
}

#[test]
fn a_missing_or_wrong_password_behind_sentinels_is_reported_at_once() {
    let watched = Watched::start(0);
    let address = through(&watched.sentinels, Watched::NAME);
    // The master has no password.
    run(with_password(&address, "secret", &["ls"]))
        .failed(77, &["refuses the password, or has none", "RLOCK_PASSWORD"]);
    watched.servers[0].client().say("CONFIG SET requirepass secret");
    for arguments in [&["ls"][..], &["run", "key", "true"], &["run", "-n", "key", "true"]] {
        let port = watched.servers[0].port();
        let server = format!("the server at 127.0.0.1:{port} wants a password");
        run(with_password(&address, "", arguments)).failed(77, &[&server, "RLOCK_PASSWORD"]);
        run(with_password(&address, "wrong", arguments)).failed(77, &["refuses the password", "--password-file"]);
    }
}

#[test]
fn a_sentinel_with_its_own_password_is_recognized() {
    let master = Server::start();
    let configuration = format!("sentinel monitor locks 127.0.0.1 {} 1\n", master.port());
    let sentinel = Server::prepare().sentinel(&configuration).start();
    sentinel.client().say("ACL SETUSER default resetpass >hidden");
    let port = sentinel.port();
    let address = format!("redis+sentinel://127.0.0.1:{port}/locks");
    run(with_password(&address, "", &["ls"]))
        .failed(77, &[&format!("the server at 127.0.0.1:{port} wants a password"), "sentinels are asked without one"]);
}

/// Replies to everything like a web server.
fn web_server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a_server_that_is_not_redis_is_recognized() {
    for (answer, what) in [
        ("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "a web server"),
        ("SSH-2.0-OpenSSH_9.2p1\r\n", "by what it says"),
    ] {
        let port = web_server(answer);
        let address = format!("redis://127.0.0.1:{port}");
        run(bare(&["-u", &address, "run", "--wait", "10m", "key", "true"]))
            .failed(78, &["is not Redis", what, "is the port right"]);
        let address = format!("redis+sentinel://127.0.0.1:{port}/locks");
        run(bare(&["-u", &address, "ls"])).failed(78, &["is not Redis", what]);
    }
}

#[test]
fn options_of_flock_are_accepted_or_explained() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    for option in [&["--timeout", "0.05"][..], &["-w", "0.05"], &["--nonblock"], &["--nb"], &["-n"]] {
        let with = |last: &[&str]| run(rlock(&server, &[&["run"], option, last].concat()));
        with(&["key", "true"]).failed(75, &["key: not free"]);
        with(&["--conflict-exit-code", "3", "key", "true"]).failed(3, &["key: not free"]);
    }
    released(&mut client, "key");
    run(rlock(&server, &["run", "--timeout", "1", "key", "true"])).succeeded();
    for (option, advice) in [
        ("-x", "exclusive without it"),
        ("-e", "exclusive without it"),
        ("--exclusive", "--write"),
        ("-s", "use --read"),
        ("--shared", "use --read"),
        ("--unlock", "rlock unlock"),
        ("-o", "leave it out"),
        ("--close", "leave it out"),
        ("-F", "leave it out"),
        ("--no-fork", "leave it out"),
    ] {
        run(rlock(&server, &["run", option, "key", "true"])).failed(64, &[&format!("there is no {option}: "), advice]);
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_server_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let waits = start(bare(&["-u", &address, "run", "--wait", "10m", "key", "true"]));
    drop(listener.accept().unwrap());
    drop(listener);
    waits.signal("TERM");
    let (ended, took) = crate::support::within_patience(|| waits.end());
    assert_eq!((ended.code(), ended.errors.as_str()), (143, ""), "{ended:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
