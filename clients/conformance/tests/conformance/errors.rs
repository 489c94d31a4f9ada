//! What callers get from bad servers and bad settings: one word, soon, and no noise.

use crate::load::assert_within;
use crate::world::*;
use rlock_conformance::{Adapter, Failure};
use rlock_testing::{Server, free_port};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

/// How many lines a client may write about an error that stays. A client that asks again without a pause writes thousands.
const COMPLAINTS_MAX: usize = 20;

const PATIENCE_MS: u64 = 2_000;

/// The refusal comes when the client is opened, or when it is first used. The time counts from the question: how long its
/// language takes to start is not the client's own time.
fn refusal(world: &World, place: Value) -> (Adapter, Failure, Instant) {
    let client = world.tried.start();
    let _ = client.asks(json!({"do": "block", "for": 0}));
    let began = Instant::now();
    let opened = client.asks(with(place, json!({"do": "open", "patience": PATIENCE_MS})));
    let failed = opened.and_then(|_| client.acquire("a", plain("app:1"))).expect_err("there is no lock to be had");
    (client, failed, began)
}

fn is_refused_as(word: &str, world: &World, place: Value) -> Instant {
    let (_client, failed, began) = refusal(world, place);
    assert_eq!(failed.word, word, "{}", failed.text);
    assert!(!failed.text.is_empty());
    began
}

pub fn no_module(world: &World) {
    let server = Server::prepare().without_module().start();
    is_refused_as("no-module", world, at(server.port()));
}

pub fn no_right(world: &World) {
    let server = Server::start();
    let mut eye = server.client();
    eye.say("ACL SETUSER default resetpass >secret");
    eye.say("ACL SETUSER reader on >secret ~* +@read +@connection");
    let url = |access: &str| json!({"url": format!("redis://{access}127.0.0.1:{}", server.port())});
    for access in ["", ":wrong@", "nobody:secret@", "reader:secret@"] {
        is_refused_as("no-right", world, url(access));
    }
}

/// A right is taken away from a user that waits: that ends the wait, without noise.
pub fn a_right_that_is_taken_away(world: &World) {
    let server = Server::start();
    let mut eye = server.client();
    eye.say("ACL SETUSER app on >secret ~* +@all");
    let client = world.open(json!({"url": format!("redis://app:secret@127.0.0.1:{}", server.port())}));
    take(&mut eye, "a");
    let waits = client.wants("a", plain("a"));
    eye.until_waiting(1);
    eye.say("ACL SETUSER app -@all +@connection");
    kill_connections(&mut eye);
    fails_as("no-right", &client.answer(waits));
    is_quiet(&client);
}

/// Nothing changes for some seconds, and the client writes little about that.
fn is_quiet(client: &Adapter) {
    thread::sleep(Duration::from_secs(3));
    assert!(client.complaints() <= COMPLAINTS_MAX, "{} lines", client.complaints());
}

/// The server is gone, while the client holds and waits: the client goes on trying, and writes little.
pub fn a_server_that_is_gone_makes_no_noise(world: &World) {
    let (server, mut eye, client) = world.with_taken("a");
    ok(client.acquire("b", plain("b")));
    client.wants("a", plain("a"));
    eye.until_waiting(1);
    drop(server);
    is_quiet(&client);
}

pub fn another_kind(world: &World) {
    let (_server, _eye, client) = world.with_client();
    ok(client.acquire("a", plain("a")));
    fails_as("wrong-kind", &client.acquire("r", json!({"read": "a"})));
    ok(client.acquire("r", json!({"read": "r"})));
    fails_as("wrong-kind", &client.acquire("b", plain("r")));
}

/// An owner that reads would wait for itself if it wrote, and a name that stores something else is no lock.
pub fn what_the_server_refuses(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let owned = |lock| with(lock, json!({"owner": "ann"}));
    ok(client.acquire("a", owned(json!({"read": "a"}))));
    fails_as("deadlock", &client.acquire("b", owned(json!({"write": "a"}))));
    ok(client.release("a"));
    eye.say("SET a data");
    fails_as("refused", &client.acquire("c", plain("a")));
}

/// The client refuses arguments that cannot be right, each with a text, and sends nothing.
pub fn arguments_that_are_refused(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let (many, long) = ((0..65).map(|name| name.to_string()).collect::<Vec<_>>(), "x".repeat(513));
    let locks = [
        json!({"lock": ""}),
        json!({"all": []}),
        json!({"all": many}),
        json!({"all": ["a", "b", "a"]}),
        json!({"all": ["a", ""]}),
        json!({"permit": "a", "limit": 0}),
        json!({"permit": "a", "limit": 100_001}),
        json!({"permit": "a", "limit": 1, "owner": "me"}),
        json!({"all": ["a", "b"], "owner": "me"}),
    ];
    let terms = [
        json!({"wait": -1}),
        json!({"lease": 0}),
        json!({"lease": -1}),
        json!({"fixed": 0}),
        json!({"max_waiters": 0}),
        json!({"replicas": 0, "within": 100}),
        json!({"owner": ""}),
        json!({"owner": long}),
        json!({"owner": "mode"}),
        json!({"owner": "me:write"}),
    ];
    let has = |it: &Value| !it.as_object().is_some_and(|fields| fields.keys().any(|field| world.tried.lacks(field)));
    // Redisson defines these: a negative wait tries once, and its multi-lock takes any names.
    let redissons = [json!({"lock": "a", "wait": -1}), json!({"all": many}), json!({"all": ["a", "b", "a"]})];
    let is_defined = |it: &Value| world.tried.name == "java" && redissons.contains(it);
    let all = locks.into_iter().chain(terms.into_iter().map(|terms| with(plain("a"), terms)));
    for wrong in all.filter(|it| has(it) && !is_defined(it)) {
        let answer = client.acquire("x", wrong.clone());
        let is_refused = answer.as_ref().is_err_and(|it| it.word == "configuration" && !it.text.is_empty());
        assert!(is_refused, "{wrong}: {answer:?}");
    }
    let asked = eye.say("INFO commandstats").as_text().to_lowercase();
    assert!(!asked.contains("acquire"), "{asked}");
}

pub fn no_server_listens(world: &World) {
    let began = is_refused_as("unavailable", world, at(free_port()));
    assert_within("it is reported", began, Duration::from_millis(2 * PATIENCE_MS) + SOON, Instant::now());
}

pub fn an_address_that_is_none(world: &World) {
    is_refused_as("configuration", world, json!({"url": "http://127.0.0.1:1"}));
}

/// Something else is at the address: it speaks another language, nonsense, or nothing. There is no word for which of
/// these it is, but it is an error, and soon.
pub fn no_server_at_all(world: &World) {
    let words: [&[u8]; 3] =
        [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", &[0xff; 100], b"$99999999999\r\n"];
    for says in words {
        let (_client, failed, began) = refusal(world, at(server_that_says(says)));
        let fits = ["unavailable", "refused", "configuration"].contains(&failed.word.as_str());
        assert!(fits, "{failed:?}");
        assert_within("it is reported", began, Duration::from_millis(2 * PATIENCE_MS) + SOON, Instant::now());
    }
}

/// A server that says this to whatever it hears. Returns its port.
fn server_that_says(words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1_024];
                while matches!(stream.read(&mut buffer), Ok(1..)) && stream.write_all(words).is_ok() {}
            });
        }
    });
    port
}
