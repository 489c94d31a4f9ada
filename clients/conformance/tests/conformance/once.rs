//! `once`: one of all callers of a key works, and all get its value.

use crate::load::{assert_within, wait_within};
use crate::world::*;
use rlock_testing::{PATIENCE, Server, unix_ms, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const VALUE: &str = "42 €\n\"\0\"";

/// One caller works while the callers of two other processes wait. All get its value, the value is kept as long as the
/// caller wanted, and the lock is free. A later caller gets the value without any work.
pub fn one_works_and_all_get_its_value(world: &World) {
    let (server, mut eye, leader) = world.with_client();
    let others = [world.client_of(&server), world.client_of(&server)];
    let leads = begin_once(&leader, "a", json!({}));
    assert_eq!(eye.hash("a").len(), 1);
    let waits = others.each_ref().map(|other| ask_once(other, "a", json!({})));
    eye.until_waiting(2);
    let before = unix_ms();
    finish(&leader, leads, VALUE);
    is_given(VALUE, leader.answer(leads));
    for (other, id) in others.iter().zip(waits) {
        is_given(VALUE, other.answer(id));
        is_given(VALUE, other.answer(ask_once(other, "a", json!({}))));
        assert!(!has_begun(other, id));
    }
    assert_eq!(stored(&mut eye, "a").as_deref(), Some(VALUE));
    let kept = KEEP_MS as i64;
    assert!((before + kept..=unix_ms() + kept).contains(&eye.expiry(&stored_at("a"))));
    assert_eq!(calls(&mut eye, "answer"), 1);
    until_nothing_is_left(&mut eye, "a");
}

/// An empty value is a value, and so is one that is as long as the server allows.
pub fn values_of_all_lengths(world: &World) {
    let (server, mut eye, client) = world.with_client();
    let second = world.client_of(&server);
    for length in [0, 65_536] {
        let (key, value) = (length.to_string(), "x".repeat(length));
        let leads = begin_once(&client, &key, json!({}));
        let waits = ask_once(&second, &key, json!({}));
        eye.until_waiting(1);
        finish(&client, leads, &value);
        is_given(&value, client.answer(leads));
        is_given(&value, second.answer(waits));
        is_given(&value, second.answer(ask_once(&second, &key, json!({}))));
    }
}

/// A key that contains a brace decides by itself which slot it is in, and so does the key of its value.
pub fn a_key_with_a_tag(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let leads = begin_once(&client, "{t}:a", json!({}));
    finish(&client, leads, VALUE);
    is_given(VALUE, client.answer(leads));
    assert_eq!(eye.keys(), ["rlock_answer:{t}:a"]);
    ok(client.asks(json!({"do": "forget", "once": "{t}:a"})));
    assert_eq!(eye.keys(), [""; 0]);
}

/// When the value has expired, the next caller works.
pub fn a_value_that_expires(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let leads = begin_once(&client, "a", json!({"keep": 300}));
    let finished = Instant::now();
    finish(&client, leads, "first");
    is_given("first", client.answer(leads));
    wait_until("the value expires", || stored(&mut eye, "a").is_none());
    assert!(finished.elapsed() >= Duration::from_millis(290), "too soon");
    let leads = begin_once(&client, "a", json!({}));
    finish(&client, leads, "second");
    is_given("second", client.answer(leads));
}

/// When the value is forgotten, the next caller works. To forget a value that is not there is no error.
pub fn a_value_that_is_forgotten(world: &World) {
    let (server, mut eye, client) = world.with_client();
    let second = world.client_of(&server);
    let forget = || ok(second.asks(json!({"do": "forget", "once": "a"})));
    forget();
    for value in ["first", "second"] {
        let leads = begin_once(&client, "a", json!({}));
        finish(&client, leads, value);
        is_given(value, client.answer(leads));
        is_given(value, second.answer(ask_once(&second, "a", json!({}))));
        forget();
        assert_eq!(stored(&mut eye, "a"), None);
    }
}

/// A value that is longer than the server allows is an error of its leader alone: the next caller works, in the same
/// process and in another one.
pub fn a_value_that_is_too_long(world: &World) {
    let server = Server::prepare().load_arguments(&["max-answer", "10"]).start();
    let (mut eye, client) = (server.client(), world.client_of(&server));
    let second = world.client_of(&server);
    let leads = begin_once(&client, "a", json!({}));
    let waits = ask_once(&second, "a", json!({}));
    eye.until_waiting(1);
    finish(&client, leads, "more than 10");
    fails_as("refused", &client.answer(leads));
    assert_eq!(stored(&mut eye, "a"), None);
    until_begun(&second, waits);
    let beside = ask_once(&second, "a", json!({}));
    finish(&second, waits, "also too long");
    fails_as("refused", &second.answer(waits));
    until_begun(&second, beside);
    finish(&second, beside, "short");
    is_given("short", second.answer(beside));
    until_nothing_is_left(&mut eye, "a");
}

/// Callers of one process share one request, both while another process leads and while one of them leads. Each keeps its
/// own limit: it is `busy` in time, and the request goes on for the others.
pub fn callers_of_one_process_share_a_request(world: &World) {
    let (server, mut eye, other) = world.with_client();
    let client = world.client_of(&server);
    let leads = begin_once(&other, "a", json!({}));
    let first = ask_once(&client, "a", json!({}));
    eye.until_waiting(1);
    let asked = calls(&mut eye, "once");
    nine_are_busy(&client);
    assert_eq!((calls(&mut eye, "once") - asked, eye.figure("waiters")), (0, 1));
    all_are_given("from elsewhere", &client, first, || finish(&other, leads, "from elsewhere"));
    ok(client.asks(json!({"do": "forget", "once": "a"})));

    let leads = begin_once(&client, "a", json!({}));
    let asked = calls(&mut eye, "once");
    nine_are_busy(&client);
    assert_eq!((calls(&mut eye, "once") - asked, eye.figure("waiters")), (0, 0));
    let answered = calls(&mut eye, "answer");
    all_are_given("from here", &client, leads, || finish(&client, leads, "from here"));
    assert_eq!(calls(&mut eye, "answer") - answered, 1);
}

fn nine_are_busy(client: &rlock_conformance::Adapter) {
    let (began, limit) = (Instant::now(), Duration::from_millis(300));
    let waits: Vec<_> = (0..9).map(|_| ask_once(client, "a", json!({"wait": 300}))).collect();
    for id in waits {
        let (answer, said) = client.answer_within(PATIENCE, id);
        fails_as("busy", &answer);
        assert_within("the limit", began, limit, said.at);
    }
}

/// The first caller of the process and nine more: their own work never begins.
fn all_are_given(value: &str, client: &rlock_conformance::Adapter, first: u64, finish: impl FnOnce()) {
    let others: Vec<_> = (0..9).map(|_| ask_once(client, "a", json!({}))).collect();
    // When this is answered, the adapter has read the requests before it.
    ok(client.asks(json!({"do": "block", "for": 0})));
    finish();
    is_given(value, client.answer(first));
    for id in others {
        is_given(value, client.answer(id));
        assert!(!has_begun(client, id));
    }
}

/// The caller that has sent the request gives up, by its limit or by hand. The other callers of its process still get the
/// value, without work of their own.
pub fn a_caller_that_gives_up_leaves_the_others(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    lead_by_hand(&mut eye, "a");
    let limited = ask_once(&client, "a", json!({"wait": 700}));
    eye.until_waiting(1);
    let second = ask_once(&client, "a", json!({}));
    fails_as("busy", &client.answer(limited));
    eye.until_waiting(1);
    let third = ask_once(&client, "a", json!({}));
    ok(client.asks(json!({"do": "cancel", "of": second})));
    fails_as("cancelled", &client.answer(second));
    eye.until_waiting(1);
    answer_by_hand(&mut eye, "a", VALUE);
    is_given(VALUE, client.answer(third));
    assert!(!has_begun(&client, third));
    until_nothing_is_left(&mut eye, "a");
}

/// All callers give up: no waiter is left, and no hold.
pub fn callers_that_give_up_leave_the_queue(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    lead_by_hand(&mut eye, "a");
    let waits = [0; 3].map(|_| ask_once(&client, "a", json!({})));
    eye.until_waiting(1);
    for id in waits {
        ok(client.asks(json!({"do": "cancel", "of": id})));
        fails_as("cancelled", &client.answer(id));
    }
    wait_within(SOON, "no caller waits", || eye.figure("waiters") == 0);
    assert_eq!(eye.say("RLOCK.RELEASE a other").as_int(), 1);
    until_nothing_is_left(&mut eye, "a");
}

/// A caller is `busy` when its limit is over, not sooner and not much later. With a limit of zero it tries once: it gets a
/// value, or leads, without a wait.
pub fn a_limit_is_kept(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    lead_by_hand(&mut eye, "a");
    for limit in [0, 300, 1_000] {
        let (began, limit) = (Instant::now(), Duration::from_millis(limit));
        let id = ask_once(&client, "a", json!({"wait": limit.as_millis() as u64}));
        let (answer, said) = client.answer_within(PATIENCE, id);
        fails_as("busy", &answer);
        assert!(said.at - began + Duration::from_millis(2) >= limit, "too soon: {:?}", said.at - began);
        assert_within("the limit", began, limit, said.at);
        wait_within(SOON, "no caller waits", || eye.figure("waiters") == 0);
    }
    answer_by_hand(&mut eye, "a", VALUE);
    is_given(VALUE, client.answer(ask_once(&client, "a", json!({"wait": 0}))));
    let leads = begin_once(&client, "b", json!({"wait": 0}));
    finish(&client, leads, VALUE);
    is_given(VALUE, client.answer(leads));
}

/// A server that stalls does not lengthen the limit. The request that reaches it later leaves no lock.
pub fn a_limit_is_kept_on_a_server_that_stalls(world: &World) {
    let (server, mut eye, client) = world.with_client();
    ok(client.acquire("before", plain("before")));
    ok(client.release("before"));
    server.freeze();
    let (limit, began) = (Duration::from_millis(700), Instant::now());
    let id = ask_once(&client, "a", json!({"wait": 700}));
    let (answer, said) = client.answer_within(PATIENCE, id);
    fails_as("unavailable", &answer);
    assert_within("the limit", began, limit, said.at);
    assert!(!has_begun(&client, id));
    server.thaw();
    wait_until("the request has arrived", || eye.figure("grants") == 2);
    until_nothing_is_left(&mut eye, "a");
}

/// A caller for which the queue is too long is refused, and does not wait.
pub fn a_queue_may_be_long_enough(world: &World) {
    let (server, mut eye, client) = world.with_client();
    let second = world.client_of(&server);
    lead_by_hand(&mut eye, "a");
    let waits = ask_once(&client, "a", json!({"max_waiters": 1}));
    eye.until_waiting(1);
    fails_as("queue-full", &second.answer(ask_once(&second, "a", json!({"max_waiters": 1}))));
    assert_eq!(eye.figure("waiters"), 1);
    answer_by_hand(&mut eye, "a", VALUE);
    is_given(VALUE, client.answer(waits));
}

/// The client refuses what cannot be right, and sends nothing.
pub fn arguments_that_are_refused(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let wrong = [
        json!({"once": ""}),
        json!({"keep": 0}),
        json!({"keep": -1}),
        json!({"lease": 0}),
        json!({"wait": -1}),
        json!({"max_waiters": 0}),
    ];
    let has = |it: &Value| !it.as_object().is_some_and(|it| it.keys().any(|field| world.tried.lacks(field)));
    for fields in wrong.into_iter().filter(has) {
        let answer = client.answer(ask_once(&client, "a", fields.clone()));
        let is_refused = answer.as_ref().is_err_and(|it| it.word == "configuration" && !it.text.is_empty());
        assert!(is_refused, "{fields}: {answer:?}");
    }
    assert_eq!(calls(&mut eye, "once"), 0);
}

/// A lock of another kind has no answer.
pub fn another_kind(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    assert_eq!(eye.say("RLOCK.RACQUIRE a other 600000"), rlock_testing::Reply::Nil);
    fails_as("wrong-kind", &client.answer(ask_once(&client, "a", json!({}))));
}

/// A user may lack the right to ask. If it lacks only the right to answer, its work has run, no value is stored, and the
/// lock is free again.
pub fn no_right(world: &World) {
    let server = Server::start();
    let mut eye = server.client();
    let opened = |user: &str, lacks: &str| {
        let mut eye = server.client();
        eye.say(&format!("ACL SETUSER {user} on >secret ~* &* +@all -{lacks}"));
        world.open(json!({"url": format!("redis://{user}:secret@127.0.0.1:{}", server.port())}))
    };
    let client = opened("asks", "rlock.once");
    fails_as("no-right", &client.answer(ask_once(&client, "a", json!({}))));
    let client = opened("answers", "rlock.answer");
    let leads = begin_once(&client, "a", json!({}));
    finish(&client, leads, VALUE);
    fails_as("no-right", &client.answer(leads));
    until_nothing_is_left(&mut eye, "a");
    assert_eq!(stored(&mut eye, "a"), None);
}
