//! What a server says that cannot do it: the line must not say that nobody answers, and must say what to do.

use crate::support::{Place, bare, rlock, run, start, url, within_patience};
use rlock_testing::{Cluster, Reply, Server, Watched, text, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

fn tcp(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// It failed with this code, and said so without blaming a server that has answered.
#[track_caller]
fn answered(command: Command, code: i32, words: &[&str]) {
    let ended = run(command);
    ended.failed(code, words);
    assert!(!ended.errors.contains("no server answers"), "{ended:?}");
}

#[test]
fn a_replica() {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    let mut client = replica.client();
    crate::support::taken(&mut master.client(), "key");
    wait_until("it has the lock", || crate::support::exists(&mut client, "key"));
    answered(rlock(&replica, &["break", "--yes", "key"]), 69, &["is a replica", "READONLY", "the master's address"]);
}

#[test]
fn too_few_replicas_to_write() {
    let server = Server::start();
    crate::support::taken(&mut server.client(), "key");
    server.client().say("CONFIG SET min-replicas-to-write 1");
    answered(rlock(&server, &["break", "--yes", "key"]), 69, &["NOREPLICAS", "min-replicas-to-write", "try later"]);
}

#[test]
fn a_server_that_is_busy_with_a_script() {
    let server = Server::start();
    let (mut client, mut endless) = (server.client(), server.client());
    client.say("CONFIG SET busy-reply-threshold 1");
    endless.send(&["EVAL", "while true do end", "0"]);
    let is_busy = |reply: Reply| matches!(reply, Reply::Error(line) if line.starts_with("BUSY"));
    wait_until("the script runs", || is_busy(client.say("PING")));
    answered(rlock(&server, &["inspect", "key"]), 69, &["BUSY", "script", "SCRIPT KILL"]);
    assert_eq!(client.say("SCRIPT KILL"), text("OK"));
}

#[test]
fn a_node_that_is_taken_for_the_whole() {
    let cluster = Cluster::start();
    let (one, port) = (&cluster.masters[0], cluster.masters[0].port());
    let advice = format!("redis+cluster://127.0.0.1:{port}");
    answered(bare(&["-u", &tcp(one), "inspect", &cluster.key_on(1)]), 78, &["node of a cluster", &advice]);
    // A node that could have several databases says only that this is none.
    let known = one.client().say("CONFIG GET cluster-databases");
    let what = if known.as_list().is_empty() { "number at the end of the address" } else { "cluster-databases" };
    answered(bare(&["-u", &format!("{}/1", tcp(one)), "ls"]), 78, &["a cluster", what]);
    // By its socket nobody else is reached.
    answered(bare(&["-u", &url(one), "inspect", &cluster.key_on(1)]), 78, &["node of a cluster", "redis+cluster://"]);
}

#[test]
fn a_server_that_is_taken_for_a_cluster_or_a_sentinel() {
    let server = Server::start();
    let by = |kind: &str, name: &str| {
        let address = format!("{kind}://127.0.0.1:{}{name}", server.port());
        bare(&["-u", &address, "ls"])
    };
    answered(by("redis+cluster", ""), 78, &["in no cluster", "its own address"]);
    answered(by("redis+sentinel", "/locks"), 78, &["no sentinel", "its own address"]);
    answered(by("redis", "/99"), 78, &["no database of this number"]);
    let watched = Watched::start(0);
    let address = format!("redis+sentinel://127.0.0.1:{}/other", watched.sentinels[0].port());
    answered(bare(&["-u", &address, "ls"]), 78, &["knows no master", "other"]);
}

const FULL: &[&str] = &["max number of clients", "maxclients are taken", "try later"];

#[test]
fn a_server_without_a_connection_to_spare() {
    let server = Server::start();
    let mut client = server.client();
    client.say("CONFIG SET maxclients 1");
    for address in [tcp(&server), url(&server)] {
        for command in [&["inspect", "key"][..], &["run", "key", "true"], &["run", "-n", "key", "true"]] {
            answered(bare(&[&["-u", &address], command].concat()), 69, FULL);
        }
    }
}

/// The first connection is for requests. A wait needs a second one, and asks for it for as long as a failover may take,
/// or as it has time.
#[test]
fn a_server_without_a_connection_to_wait_on() {
    let server = Server::start();
    let mut client = server.client();
    crate::support::taken(&mut client, "key");
    client.say("CONFIG SET maxclients 2");
    answered(rlock(&server, &["run", "--wait", "300ms", "key", "true"]), 69, FULL);
    answered(rlock(&server, &["run", "key", "true"]), 69, FULL);
    // What needs no wait needs no second connection.
    answered(rlock(&server, &["run", "-n", "key", "true"]), 75, &["not free"]);
    run(rlock(&server, &["run", "other", "true"])).succeeded();
    let mut refused = || client.info("stats").number("rejected_connections");
    let before = refused();
    let waits = start(rlock(&server, &["run", "key", "true"]));
    wait_until("it is refused once more", || refused() > before);
    client.say("CONFIG SET maxclients 100");
    client.until_waiting(1);
    crate::support::given_back(&mut client, "key");
    waits.end().succeeded();
}

/// Stands between the command line and a server, whose module does not know sessions then. Returns its address.
fn with_an_older_module(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, server) = (tcp_at(&listener), format!("127.0.0.1:{}", server.port()));
    thread::spawn(move || {
        for requests in listener.incoming().map_while(Result::ok) {
            let Ok(answers) = TcpStream::connect(&server) else { return };
            let (mut from_server, mut to_client) = (answers.try_clone().unwrap(), requests.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
            thread::spawn(move || pass_on_as_to_an_older_one(requests, answers));
        }
    });
    address
}

fn tcp_at(listener: &TcpListener) -> String {
    format!("redis://{}", listener.local_addr().unwrap())
}

fn pass_on_as_to_an_older_one(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let requests = &mut bytes[..length];
        for known in [b"RLOCK.EVENTS", b"RLOCK.CANCEL"] {
            while let Some(at) = requests.windows(known.len()).position(|it| it == known) {
                requests[at + 6..at + known.len()].fill(b'X');
            }
        }
        if to.write_all(requests).is_err() {
            return;
        }
    }
}

#[test]
fn a_module_that_is_too_old_to_wait() {
    let server = Server::start();
    crate::support::taken(&mut server.client(), "key");
    let address = with_an_older_module(&server);
    let advice = ["key: the rlock module of the server at ", "is too old to wait", "or newer", "--no-wait"];
    answered(bare(&["-u", &address, "run", "key", "true"]), 78, &advice);
    answered(bare(&["-u", &address, "run", "-n", "key", "true"]), 75, &["not free"]);
    run(bare(&["-u", &address, "run", "other", "true"])).succeeded();
}

#[test]
fn keys_that_are_no_locks() {
    let server = Server::start();
    let mut client = server.client();
    client.say("SET data 1");
    client.say("SET redisson_lock_token:{key} many");
    answered(rlock(&server, &["run", "data", "true"]), 78, &["data: refused: WRONGTYPE", "a name of its own"]);
    answered(rlock(&server, &["inspect", "data"]), 78, &["data: refused: WRONGTYPE", "a name of its own"]);
    answered(rlock(&server, &["run", "--token", "key", "true"]), 78, &["fencing counter", "redisson_lock_token:{"]);
}

/// Who types `rlock run` knows of no RLOCK command.
#[test]
fn a_lock_of_the_other_kind() {
    let server = Server::start();
    let mut client = server.client();
    crate::support::taken(&mut client, "plain");
    client.say("RLOCK.RACQUIRE both somebody 600000");
    for side in ["--read", "--write"] {
        let ended = run(rlock(&server, &["run", side, "plain", "true"]));
        ended.failed(78, &["rlock: plain: it is held as a plain lock: leave out --read, --write and --slots"]);
    }
    let ended = run(rlock(&server, &["run", "both", "true"]));
    ended.failed(78, &["rlock: both: it is held as a read-write lock: use --read or --write"]);
    client.say("RLOCK.PACQUIRE slots somebody 600000 LIMIT 2");
    let ended = run(rlock(&server, &["run", "slots", "true"]));
    ended.failed(78, &["rlock: slots: it is held as slots: use --slots"]);
}

#[test]
fn a_password_that_was_not_given_is_not_refused() {
    let (open, closed) = (Server::start(), Server::start());
    closed.client().say("CONFIG SET requirepass secret");
    let with = |server: &Server, password: &str| {
        let mut command = bare(&["-u", &tcp(server), "ls"]);
        command.env("RLOCK_PASSWORD", password);
        run(command)
    };
    let none = with(&closed, "");
    none.failed(77, &["wants a password", "RLOCK_PASSWORD", "--password-file"]);
    assert!(!none.errors.contains("refuses"), "{none:?}");
    with(&closed, "wrong").failed(77, &["refuses the password", "RLOCK_PASSWORD", "--password-file"]);
    with(&open, "secret").failed(77, &["or has none", "RLOCK_PASSWORD"]);
}

/// A server that also speaks TLS, with a certificate for `localhost` that nobody vouches for; the port, and where that
/// is.
fn with_tls() -> (Server, u16, Place) {
    let (place, port) = (Place::new(), rlock_testing::free_port());
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.file("cert.pem"), issued.cert.pem()).unwrap();
    std::fs::write(place.file("key.pem"), issued.key_pair.serialize_pem()).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| place.file(name).display().to_string());
    let server = Server::prepare()
        .options(&["--tls-port", &port.to_string(), "--tls-cert-file", &cert, "--tls-key-file", &key])
        .options(&["--tls-auth-clients", "no"])
        .start();
    (server, port, place)
}

#[test]
fn tls_and_who_is_trusted() {
    let (_server, port, place) = with_tls();
    let ls = |host: &str, authority: Option<&str>| {
        let mut command = bare(&["-u", &format!("rediss://{host}:{port}"), "ls"]);
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        command.envs(authority.map(|file| ("SSL_CERT_FILE", place.file(file))));
        run(command)
    };
    let unknown = ls("localhost", None);
    unknown.failed(78, &["certificate", "UnknownIssuer", "SSL_CERT_FILE"]);
    assert!(!unknown.errors.contains("no server answers"), "{unknown:?}");
    ls("localhost", Some("cert.pem")).succeeded();
    ls("127.0.0.1", Some("cert.pem")).failed(78, &["certificate", "the name that the certificate is for"]);
    ls("localhost", Some("nowhere.pem")).failed(78, &["SSL_CERT_FILE"]);
    run(bare(&["-u", &format!("redis://127.0.0.1:{port}"), "ls"])).failed(78, &["speaks TLS", "rediss://"]);
}

/// A plain server waits for the rest of what it takes for a line. So it is asked whether it is one.
#[test]
fn tls_to_a_port_that_speaks_none() {
    let server = Server::start();
    for arguments in [&["ls"][..], &["run", "--wait", "10m", "key", "true"]] {
        let address = format!("rediss://127.0.0.1:{}", server.port());
        run(bare(&[&["-u", &address], arguments].concat())).failed(78, &["speaks no TLS", "redis://"]);
    }
}

/// It may be one that is busy.
#[test]
fn tls_to_a_port_that_says_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("rediss://{}", silent.local_addr().unwrap());
    let (ended, took) = within_patience(|| run(bare(&["-u", &address, "--connect-timeout", "100ms", "ls"])));
    ended.failed(69, &["timed out", "is it up"]);
    assert!(took < Duration::from_secs(5), "{took:?}");
}
