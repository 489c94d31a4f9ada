//! What goes wrong before anything is done: one line with the error and the remedy, an exit code, and no stack trace.

use crate::support::{Place, bare, rlock, run, url, within_patience};
use rlock_testing::{Cluster, Server, Watched, free_port};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Each command, as short as it can be.
const COMMANDS: [&[&str]; 5] =
    [&["run", "-n", "key", "true"], &["ls"], &["ls", "--held"], &["inspect", "key"], &["break", "--yes", "key"]];

#[test]
fn what_no_command_can_be_done_with() {
    let no_server = format!("redis://127.0.0.1:{}", free_port());
    // It accepts connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", listener.local_addr().unwrap());
    let (without, closed) = (Server::prepare().without_module().start(), Server::start());
    closed.client().say("CONFIG SET requirepass secret");
    let closed = format!("redis://127.0.0.1:{}", closed.port());
    for (address, password, code, words) in [
        (&no_server, "", 69, &["no server answers at 127.0.0.1:", "refused", "RLOCK_URL"][..]),
        (&"unix:///no/such/socket".to_owned(), "", 69, &["no server answers at /no/such/socket"]),
        (&silent, "", 69, &["no server answers"]),
        (&url(&without), "", 78, &["no rlock module", "loadmodule"]),
        (&closed, "", 77, &["wants a password", "RLOCK_PASSWORD", "--password-file"]),
        (&closed, "wrong", 77, &["refuses the password", "RLOCK_PASSWORD", "--password-file"]),
    ] {
        for command in COMMANDS {
            let mut command = bare(&[&["-u", address, "--connect-timeout", "500ms"], command].concat());
            command.env("RLOCK_PASSWORD", password);
            let (ended, took) = within_patience(|| run(command));
            ended.failed(code, words);
            assert!(took < Duration::from_secs(5), "{took:?}");
        }
    }
    let open = Server::start();
    let mut command = bare(&["-u", &format!("redis://127.0.0.1:{}", open.port()), "ls"]);
    command.env("RLOCK_PASSWORD", "secret");
    run(command).failed(77, &["or has none", "RLOCK_PASSWORD"]);
}

#[test]
fn the_ways_to_give_a_password() {
    let server = Server::start();
    server.client().say("CONFIG SET requirepass secret");
    let address = format!("redis://127.0.0.1:{}", server.port());
    let place = Place::new();
    std::fs::write(place.file("password"), "secret\nand more\n").unwrap();
    std::fs::write(place.file("wrong"), "wrong\n").unwrap();
    let (right, wrong) = (place.file("password").display().to_string(), place.file("wrong").display().to_string());
    let in_url = format!("redis://:secret@127.0.0.1:{}", server.port());
    let works = |environment: &[(&str, &str)], options: &[&str]| {
        let mut command = bare(&[&["run", "key"], options, &["true"]].concat());
        command.envs(environment.iter().copied());
        run(command)
    };
    let url = ("RLOCK_URL", address.as_str());
    works(&[url, ("RLOCK_PASSWORD", "secret")], &[]).succeeded();
    works(&[url, ("RLOCK_PASSWORD_FILE", &right)], &[]).succeeded();
    works(&[url], &["--password-file", &right]).succeeded();
    works(&[("RLOCK_URL", &in_url)], &[]).succeeded();
    works(&[("RLOCK_PASSWORD", "secret")], &["-u", &address]).succeeded();
    // The option comes before the variables, and RLOCK_PASSWORD before RLOCK_PASSWORD_FILE.
    works(&[url, ("RLOCK_PASSWORD", "wrong"), ("RLOCK_PASSWORD_FILE", &wrong)], &["--password-file", &right])
        .succeeded();
    works(&[url, ("RLOCK_PASSWORD", "secret"), ("RLOCK_PASSWORD_FILE", &wrong)], &[]).succeeded();
    works(&[url], &["--password-file", "/no/such/file"]).failed(64, &["/no/such/file", "cannot be read"]);
}

/// `svc` may read `app:*`; the default user, without a password, may read everything.
fn with_a_user_of_few_rights(password: &str) -> Server {
    let server = Server::start();
    server.client().say(&format!("ACL SETUSER svc on {password} ~app:* +@connection +rlock.inspect"));
    server
}

/// If the address names a user, the command must not run as the default user.
#[test]
fn a_user_without_a_password_does_not_become_the_default_user() {
    let server = with_a_user_of_few_rights(">secret");
    let connections = || server.client().info("stats").number("total_connections_received");
    let (port, before) = (server.port(), connections());
    let unix = format!("redis+unix://{}?user=svc", server.socket().display());
    for (kind, name) in [("redis", ""), ("redis+cluster", ""), ("redis+sentinel", "/locks")] {
        let address = format!("{kind}://svc@127.0.0.1:{port}{name}");
        for command in COMMANDS {
            let words = ["svc", "password", "RLOCK_PASSWORD", "--password-file", "svc:@"];
            run(bare(&[&["-u", &address], command].concat())).failed(64, &words);
        }
    }
    run(bare(&["-u", &unix, "inspect", "other"])).failed(64, &["svc", "password", "RLOCK_PASSWORD", "&pass="]);
    assert_eq!(connections(), before + 1, "nothing is asked of the server but by this test");
}

/// The password is in the environment, or empty in the address: that says that the user needs none, and is no secret.
#[test]
fn a_user_with_a_password_is_that_user() {
    for (rule, after_user, option, password) in [(">secret", "", "", Some("secret")), ("nopass", ":", "&pass=", None)] {
        let server = with_a_user_of_few_rights(rule);
        for address in [
            format!("redis://svc{after_user}@127.0.0.1:{}", server.port()),
            format!("redis+unix://{}?user=svc{option}", server.socket().display()),
        ] {
            let inspect = |key: &str| {
                let mut command = bare(&["-u", &address, "inspect", key]);
                command.envs(password.map(|password| ("RLOCK_PASSWORD", password)));
                run(command)
            };
            inspect("app:1").failed(1, &["not held"]);
            inspect("other").failed(77, &["NOPERM"]);
        }
    }
}

/// Every user of the machine can read a command line, so a password in it is refused, and not repeated.
#[test]
fn a_password_on_the_command_line_is_refused() {
    for address in ["redis://:secret@127.0.0.1:1", "unix:///s?pass=secret", "redis+sentinel://u:secret@h/m"] {
        let ended = run(bare(&["-u", address, "ls"]));
        ended.failed(64, &["ps", "RLOCK_PASSWORD", "--password-file", "RLOCK_URL"]);
        assert!(!ended.errors.contains("secret"), "{}", ended.errors);
    }
}

#[test]
fn what_a_user_may_not_do() {
    let server = Server::start();
    server.client().say("ACL SETUSER app on >secret ~app:* +@connection +rlock.acquire +rlock.release");
    let mut command = bare(&["run", "orders", "--", "true"]);
    command.env("RLOCK_URL", format!("redis://app@127.0.0.1:{}", server.port())).env("RLOCK_PASSWORD", "secret");
    run(command).failed(77, &["orders: refused: NOPERM", "ACL"]);
}

#[test]
fn arguments_that_make_no_sense() {
    let server = Server::start();
    let cases: [(&[&str], &str); 27] = [
        (
            &[],
            "run, once, adopt, lock, unlock, renew, hold, ls, inspect, break, sessions, top, doctor, status, drill, dev, completions",
        ),
        (&["keep"], "unrecognized subcommand"),
        (&["run"], "KEY"),
        (&["run", "key"], "CMD"),
        (&["run", "--waiit", "1s", "key", "true"], "--wait"),
        (&["run", "--wait", "1d", "key", "true"], "ms, s, m or h"),
        (&["run", "--wait", "-1s", "key", "true"], "-1"),
        (&["run", "--wait", "1s", "-n", "key", "true"], "cannot be used with"),
        (&["run", "--read", "--write", "key", "true"], "cannot be used with"),
        (&["run", "--slots", "2", "--read", "key", "true"], "cannot be used with"),
        (&["run", "--slots", "2", "--write", "key", "true"], "cannot be used with"),
        (&["run", "--slots", "2", "--all", "key", "true"], "cannot be used with"),
        (&["run", "--all", "--read", "key", "true"], "cannot be used with"),
        (&["run", "--all", "--write", "key", "true"], "cannot be used with"),
        (&["run", "--max-waiters", "2", "--no-wait", "key", "true"], "cannot be used with"),
        (&["run", "--slots", "0", "key", "true"], "1..=100000"),
        (&["run", "--max-waiters", "0", "key", "true"], "1.."),
        (&["run", "--lease", "0", "key", "true"], "longer than 0"),
        (&["run", "-E", "256", "key", "true"], "256"),
        (&["run", "--replicas", "0", "key", "true"], "0"),
        (&["ls", "--limit", "0"], "1 to 10000"),
        (&["inspect"], "KEY"),
        (&["top", "--interval", "1ms"], "at least 100ms"),
        (&["top", "-i", "0.05"], "at least 100ms"),
        (&["-u", "", "ls"], "--url"),
        (&["-u", "http://localhost", "ls"], "no address of a server"),
        (&["completions", "tcsh"], "tcsh"),
    ];
    for (arguments, words) in cases {
        run(rlock(&server, arguments)).failed(64, &[words]);
    }
}

#[test]
fn what_the_server_refuses() {
    let server = Server::start();
    server.client().say("SET text 1");
    run(rlock(&server, &["run", "text", "true"])).failed(78, &["text: refused: WRONGTYPE"]);
    run(rlock(&server, &["run", "--lease", "200000000000h", "key", "true"])).failed(64, &["too long"]);
}

/// The reader may be gone, as with `head`.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let rlock = env!("CARGO_BIN_EXE_rlock");
    let script = format!("{{ {rlock} completions bash; echo $? >&2; }} | true");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "0\n");
    let full = format!("{rlock} completions bash >/dev/full");
    let output = Command::new("sh").args(["-c", &full]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.lines().count()), (Some(74), 1), "{errors}");
}

#[test]
fn clusters_and_sentinels_by_their_addresses() {
    let cluster = Cluster::start();
    let hosts: Vec<_> = cluster.masters.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let address = format!("redis+cluster://{}", hosts.join(","));
    for master in 0..3 {
        let key = cluster.key_on(master);
        let ended = run(bare(&["-u", &address, "run", &key, "--", "sh", "-c", "echo $RLOCK_KEY"]));
        assert_eq!(ended.succeeded(), format!("{key}\n"));
    }
    let one = url(&cluster.masters[0]);
    run(bare(&["-u", &one, "run", &cluster.key_on(1), "true"])).failed(78, &["another node has this lock"]);
    let watched = Watched::start(0);
    let hosts: Vec<_> = watched.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let address = format!("redis+sentinel://{}/locks", hosts.join(","));
    assert_eq!(run(bare(&["-u", &address, "run", "key", "echo", "done"])).succeeded(), "done\n");
    let unknown = format!("redis+sentinel://{}/other", hosts[0]);
    run(bare(&["-u", &unknown, "ls"])).failed(78, &["a sentinel that knows no master other"]);
}
