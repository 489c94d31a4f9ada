//! Holds that are handed on: one process detaches what it holds, and another one adopts it.

use crate::load::{assert_within, wait_within};
use crate::losses::behind_a_network;
use crate::world::*;
use rlock_conformance::{Adapter, Answer, Saying};
use rlock_testing::network::{Order, Sender};
use rlock_testing::{Reply, unix_ms, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Detaches, and returns the answer.
pub fn detach(client: &Adapter, held: &str, fields: Value) -> Answer {
    client.asks(with(json!({"do": "detach", "held": held}), fields))
}

/// Detaches, and returns the text.
pub fn text_of(client: &Adapter, held: &str, fields: Value) -> String {
    ok(detach(client, held, fields))["text"].as_str().expect("a text").to_owned()
}

pub fn adopt(client: &Adapter, held: &str, text: &str) -> Answer {
    client.asks(json!({"do": "adopt", "held": held, "text": text}))
}

fn leased(lock: Value, lease: u64) -> Value {
    with(lock, json!({"lease": lease}))
}

fn got_no_news_of_a_loss(client: &Adapter) {
    assert!(!client.said().iter().any(|it| matches!(it.what, Saying::Lost { .. })), "{:?}", client.said());
}

/// One process hands its lock to another. The lock keeps its holder, the adopter renews its lease and releases it, and the
/// next waiter gets it. The first process reports no loss.
pub fn a_hold_that_is_handed_on(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let held = ok(first.acquire("a", leased(plain("a"), 2_000)));
    let next = first.wants("next", plain("a"));
    eye.until_waiting(1);
    let text = text_of(&first, "a", json!({}));
    let adopted = ok(adopt(&second, "b", &text));
    assert_eq!(adopted["holder"], held["holder"]);
    for _ in 0..3 {
        until_renewed(&mut eye, "a");
    }
    assert_eq!(eye.hash("a"), [(held["holder"].as_str().expect("a holder").to_owned(), "1".to_owned())]);
    let look = second.look("b");
    assert!(!look.is_lost && look.asked_at_unix_ms + look.remaining_ms <= eye.expiry("a"), "{look:?}");
    ok(second.release("b"));
    ok(first.answer(next));
    ok(first.release("next"));
    until_nothing_is_left(&mut eye, "a");
    got_no_news_of_a_loss(&first);
    got_no_news_of_a_loss(&second);
}

/// The same within one client, then to another client and back.
pub fn a_hold_that_comes_back(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("0", leased(plain("a"), 2_000)));
    let turns = [(&first, &first), (&first, &second), (&second, &first)];
    for (number, (from, to)) in turns.into_iter().enumerate() {
        let text = text_of(from, &number.to_string(), json!({}));
        ok(adopt(to, &(number + 1).to_string(), &text));
        until_renewed(&mut eye, "a");
    }
    ok(first.release("3"));
    until_nothing_is_left(&mut eye, "a");
    got_no_news_of_a_loss(&first);
    got_no_news_of_a_loss(&second);
}

/// Locks of all kinds are handed on with their tokens. The text has the form that all clients share.
pub fn locks_of_all_kinds(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    let kinds = [
        ("plain", json!({"lock": "jobs/a b%€", "fenced": true}), "0", "jobs%2Fa%20b%25%E2%82%AC"),
        ("plain", json!({"lock": "A-z_0.9~:"}), "0", "A-z_0.9~:"),
        ("read", json!({"read": "r"}), "0", "r"),
        ("write", json!({"write": "w"}), "0", "w"),
        ("permit", json!({"permit": "p", "limit": 4, "fenced": true}), "4", "p"),
        ("several", json!({"all": ["{x}:2", "{x}:1"]}), "0", "%7Bx%7D:2/%7Bx%7D:1"),
        ("several", json!({"all": ["{y}:2", "{y}:1"], "fenced": true}), "0", "%7By%7D:2/%7By%7D:1"),
    ];
    let has = |lock: &Value| {
        let has_tokens = lock.get("all").is_some() && lock.get("fenced").is_some();
        let fields = lock.as_object().into_iter().flat_map(|it| it.keys().map(String::as_str));
        !fields.chain(has_tokens.then_some("tokens")).any(|field| world.tried.lacks(field))
    };
    for (kind, lock, limit, keys) in kinds.into_iter().filter(|(_, lock, ..)| has(lock)) {
        let held = ok(first.acquire("first", leased(lock.clone(), 2_000)));
        let holder = encoded(held["holder"].as_str().expect("a holder"));
        let tokens = match (&held["token"], &held["tokens"]) {
            (Value::Number(token), _) => token.to_string(),
            (_, Value::Array(tokens)) if !tokens.is_empty() => {
                tokens.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
            }
            _ => "-".to_owned(),
        };
        assert_eq!(tokens == "-", lock.get("fenced").is_none(), "{held}");
        let text = text_of(&first, "first", json!({}));
        assert_eq!(text, format!("rlock1/{kind}/2000/{limit}/{tokens}/{holder}/{keys}"));
        let adopted = ok(adopt(&second, "second", &text));
        assert_eq!(adopted, held, "{text}");
        let is_held = |eye: &mut rlock_testing::Client| eye.keys().iter().any(|key| !key.contains("token"));
        // Longer than the lease of the detached lock.
        let adopted = Instant::now();
        wait_until("it is held for longer than without renewals", || {
            assert!(is_held(&mut eye), "{text}: it is lost");
            adopted.elapsed() > Duration::from_millis(2_500)
        });
        ok(second.release("second"));
        assert!(!is_held(&mut eye), "{text}: {:?}", eye.keys());
    }
}

/// Every byte other than letters, digits, and - . _ ~ : is written in hexadecimal digits.
fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A text that no client has written: it names the holder of a lock that the suite has acquired.
pub fn a_text_by_hand(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let (holder, key) = ("h/1 €", "{x} 100%");
    assert_eq!(eye.run(&["RLOCK.ACQUIRE", key, holder, "600000"]), Reply::Nil);
    let adopted = ok(adopt(&client, "a", &format!("rlock1/plain/2000/0/7/{}/{}", encoded(holder), encoded(key))));
    assert_eq!(adopted, json!({"holder": holder, "token": 7}));
    wait_until("the lease is the one of the text", || eye.expiry(key) < unix_ms() + 2_000);
    until_renewed(&mut eye, key);
    ok(client.release("a"));
    until_nothing_is_left(&mut eye, key);
}

/// The detached lock ends at the time that its process has set. Until then it is not renewed, whether its process goes on,
/// closes its client or is killed. Then the next waiter gets it, no sooner and no later.
pub fn a_hold_that_no_process_adopts(world: &World) {
    type Then = fn(&Adapter);
    let ways: [(&str, Then); 3] = [
        ("goes on", |_| {}),
        ("closes", |first| _ = ok(first.asks(json!({"do": "close"})))),
        ("is killed", Adapter::kill),
    ];
    for (way, then) in ways {
        let (server, mut eye, first) = world.with_client();
        let second = world.client_of(&server);
        ok(first.acquire("a", leased(plain("a"), 600_000)));
        let waits = second.wants("b", plain("a"));
        eye.until_waiting(1);
        let before = unix_ms();
        text_of(&first, "a", json!({"within": 1_500}));
        let end = eye.expiry("a");
        assert!((before + 1_500..=unix_ms() + 1_500).contains(&end), "{way}: it ends at {end}");
        let (now, left) = (Instant::now(), u64::try_from(end - unix_ms()).unwrap_or_default());
        then(&first);
        let (answer, said) = second.answer_within(rlock_testing::PATIENCE, waits);
        ok(answer);
        assert!(said.at_unix_ms >= end, "{way}: {} before {end}", said.at_unix_ms);
        assert_within("the next waiter has it", now, Duration::from_millis(left), said.at);
        ok(second.release("b"));
        got_no_news_of_a_loss(&first);
    }
}

/// The first process is killed after it has detached the lock: another one adopts it, although the first one is gone.
pub fn a_hold_of_a_process_that_is_killed(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", leased(plain("a"), 2_000)));
    let text = text_of(&first, "a", json!({"within": 60_000}));
    first.kill();
    wait_until("its connections end", || connections(&mut eye).len() <= world.tried.connections_max);
    ok(adopt(&second, "b", &text));
    // From now on it has the lease of the text.
    wait_within(SOON, "it has its own lease again", || eye.expiry("a") < unix_ms() + 2_001);
    until_renewed(&mut eye, "a");
    ok(second.release("b"));
    until_nothing_is_left(&mut eye, "a");
}

/// A lock cannot be adopted after its lease, or if another holder has it now.
pub fn a_hold_that_has_ended(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", plain("a")));
    let text = text_of(&first, "a", json!({"within": 200}));
    wait_until("the lease has ended", || !exists(&mut eye, "a"));
    is_lost_by("not-held", &adopt(&second, "b", &text));
    take(&mut eye, "a");
    is_lost_by("not-held", &adopt(&second, "b", &text));
    release_by_hand(&mut eye, "a");
    got_no_news_of_a_loss(&second);
}

/// A set that has lost one of its locks is lost.
pub fn a_set_that_has_lost_a_lock(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", json!({"all": ["{x}:1", "{x}:2"]})));
    let text = text_of(&first, "a", json!({"within": 60_000}));
    eye.say("RLOCK.BREAK {x}:2");
    is_lost_by("not-held", &adopt(&second, "b", &text));
}

/// Two processes adopt the same lock. A release by one of them is a loss for the other.
pub fn a_hold_that_is_adopted_twice(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let (second, third) = (world.client_of(&server), world.client_of(&server));
    ok(first.acquire("a", leased(plain("a"), 3_000)));
    let text = text_of(&first, "a", json!({}));
    ok(adopt(&second, "b", &text));
    ok(adopt(&third, "c", &text));
    let released = Instant::now();
    ok(second.release("b"));
    let received = is_reported_lost_by("not-held", &third, "c");
    assert_within("the loss is reported", released, Duration::from_secs(1), received.at);
    is_lost_by("not-held", &third.release("c"));
    got_no_news_of_a_loss(&second);
    until_nothing_is_left(&mut eye, "a");
}

/// A hold with a fixed lease is not renewed, so it cannot be handed on. It stays as it was.
pub fn a_fixed_lease(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    ok(client.acquire("a", with(plain("a"), json!({"fixed": 60_000}))));
    fails_as("configuration", &detach(&client, "a", json!({})));
    assert!(!client.look("a").is_lost);
    ok(client.release("a"));
    until_nothing_is_left(&mut eye, "a");
}

/// A hold that is lost cannot be detached, whether the client knows of the loss yet or not.
pub fn a_hold_that_is_lost(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    for (key, lease) in [("known", 1_500), ("unknown", 600_000)] {
        ok(client.acquire(key, leased(plain(key), lease)));
        eye.say(&format!("RLOCK.BREAK {key}"));
        if key == "known" {
            client.until_lost(key);
        }
        is_lost_by("not-held", &detach(&client, key, json!({})));
        until_nothing_is_left(&mut eye, key);
    }
}

/// The server does not reply: the client does not know whether the lease was restarted. The hold goes on, and can be
/// detached later.
pub fn a_detach_without_an_answer(world: &World) {
    let (server, mut eye) = rlock_testing::Server::with_client();
    let client = world.open(with(at(server.port()), json!({"patience": 3_000})));
    let second = world.client_of(&server);
    ok(client.acquire("a", leased(plain("a"), 12_000)));
    server.freeze();
    let answer = detach(&client, "a", json!({}));
    server.thaw();
    let is_in_doubt = answer.as_ref().is_err_and(|it| ["in-doubt", "unavailable"].contains(&it.word.as_str()));
    assert!(is_in_doubt, "{answer:?}");
    assert!(!client.look("a").is_lost);
    until_renewed(&mut eye, "a");
    let text = text_of(&client, "a", json!({}));
    ok(adopt(&second, "b", &text));
    ok(second.release("b"));
    until_nothing_is_left(&mut eye, "a");
    got_no_news_of_a_loss(&client);
}

/// The reply is lost, but the request has arrived: the lease on the server may be as short as the client has asked for. The
/// client guarantees no more than that, and reports the loss.
pub fn a_detach_that_may_have_shortened_the_lease(world: &World) {
    let (_server, mut eye, network, client) = behind_a_network(world, json!({"patience": 3_000}));
    ok(client.acquire("a", leased(plain("a"), 600_000)));
    network.obey(Order::Lose(Sender::Server));
    let answer = detach(&client, "a", json!({"within": 6_000}));
    let is_in_doubt = answer.as_ref().is_err_and(|it| ["in-doubt", "unavailable"].contains(&it.word.as_str()));
    assert!(is_in_doubt, "{answer:?}");
    network.obey(Order::Lose(Sender::Client));
    guarantees_no_more_than(&client, "a", || eye.expiry("a"));
    client.until_lost("a");
}

/// The server does not reply to the adopter: nothing is adopted. The text is still good when the server replies again.
pub fn an_adoption_without_an_answer(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.open(with(at(server.port()), json!({"patience": 3_000})));
    ok(first.acquire("a", leased(plain("a"), 60_000)));
    let text = text_of(&first, "a", json!({}));
    server.freeze();
    fails_as("unavailable", &adopt(&second, "b", &text));
    server.thaw();
    ok(adopt(&second, "b", &text));
    ok(second.release("b"));
    until_nothing_is_left(&mut eye, "a");
}

/// An adopted lease counts from before the request: an adopter that counts from the reply guarantees a lock that others
/// can have. A loss is reported as for any other hold.
pub fn an_adoption_over_a_slow_network(world: &World) {
    let (server, mut eye, network, second) = behind_a_network(world, json!({}));
    let first = world.client_of(&server);
    // This opens the connection.
    ok(second.acquire("before", plain("before")));
    ok(first.acquire("a", leased(plain("a"), 4_000)));
    let text = text_of(&first, "a", json!({}));
    network.obey(Order::Delay(Sender::Server, Duration::from_secs(1)));
    ok(adopt(&second, "b", &text));
    network.obey(Order::Lose(Sender::Client));
    guarantees_no_more_than(&second, "b", || eye.expiry("a"));
    is_reported_lost_by("not-renewed", &second, "b");
}

/// What is stored under the name is overwritten: the adopter reports why its lock is lost.
pub fn an_adopted_hold_that_is_overwritten(world: &World) {
    let (server, mut eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", leased(plain("a"), 1_500)));
    let text = text_of(&first, "a", json!({}));
    ok(adopt(&second, "b", &text));
    eye.say("SET a data");
    is_reported_lost_by("overwritten", &second, "b");
    is_lost_by("overwritten", &second.release("b"));
}

/// The server restarts without its data: the client does not wait for the next renewal, which is minutes away.
pub fn an_adopted_hold_that_is_forgotten(world: &World) {
    let (server, _eye, first) = world.with_client();
    let second = world.client_of(&server);
    ok(first.acquire("a", leased(plain("a"), 600_000)));
    let text = text_of(&first, "a", json!({}));
    ok(adopt(&second, "b", &text));
    let port = server.port();
    let _server = server.crash().port(port).start();
    is_reported_lost_by("not-held", &second, "b");
}

/// Any other text is refused, and nothing is sent.
pub fn texts_that_are_refused(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let many = (0..65).map(|name| format!("/{name}")).collect::<String>();
    let wrong = [
        "",
        "rlock1",
        "rlock1/plain/2000/0/-/h",
        "rlock1/plain/2000/0/-/h/",
        "rlock1/plain/2000/0/-//a",
        "rlock2/plain/2000/0/-/h/a",
        "rlock1/other/2000/0/-/h/a",
        "rlock1/plain/0/0/-/h/a",
        "rlock1/plain/-1/0/-/h/a",
        "rlock1/plain/long/0/-/h/a",
        "rlock1/plain//0/-/h/a",
        "rlock1/plain/2000/0/x/h/a",
        "rlock1/plain/2000/0//h/a",
        "rlock1/plain/2000/0/1,/h/a",
        "rlock1/plain/2000/0/-/h/a/b",
        "rlock1/plain/2000/0/-/h%/a",
        "rlock1/plain/2000/0/-/h/a%2",
        "rlock1/plain/2000/0/-/h/a%zz",
        "rlock1/plain/2000/0/-/h/a b",
        "rlock1/plain/2000/0/-/h/a\n",
        "rlock1/plain/2000/0/-/h/ä",
        "rlock1/permit/2000/0/-/h/a",
        "rlock1/permit/2000/100001/-/h/a",
        "rlock1/several/2000/0/-/h/a/a",
        "rlock1/several/2000/0/1/h/a/b",
        &format!("rlock1/several/2000/0/-/h{many}"),
    ];
    for text in wrong {
        let answer = adopt(&client, "a", text);
        let is_refused = answer.as_ref().is_err_and(|it| it.word == "configuration" && !it.text.is_empty());
        assert!(is_refused, "{text}: {answer:?}");
    }
    assert_eq!(calls(&mut eye, "renew"), 0);
}
