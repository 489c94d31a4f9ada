//! Several locks at once, all or none: grants, waits that are overtaken meanwhile, and what others see.

use crate::cluster::node;
use crate::grace::{LONG_MS, begin, end};
use crate::inspect::of;
use crate::waiting::scene::{Outcome, Scene, Waiter};
use crate::waiting::{for_all_waiters, median};
use rlock_testing::{Client, Event, Reply, Server, ServerVersion, Tap, Wanted, list, start_waiting, text, wait_until};

for_all_waiters!(
    a_set_is_granted_when_the_last_lock_is_free,
    the_end_of_the_last_lease_grants_within_5_ms,
    a_set_is_overtaken_four_times_at_most,
    sets_with_the_same_locks_come_in_order,
    a_wait_that_ends_replies_the_longest_lease,
    a_waiter_that_leaves_leaves_all_queues,
    a_grace_keeps_all_out,
    a_full_server_grants_nothing,
    a_lock_that_becomes_another_kind_ends_the_wait,
);

fn counts<const COUNT: usize>(client: &mut Client, keys: [&str; COUNT]) -> [String; COUNT] {
    keys.map(|key| client.fields(key))
}

fn is_busy(reply: &Reply) -> bool {
    matches!(reply, Reply::Int(_))
}

#[test]
fn all_are_granted_or_none() {
    let (_server, mut client) = Server::with_client();
    assert_eq!(client.say("RLOCK.MACQUIRE 3 a b c ann 600000"), Reply::Nil);
    assert_eq!(counts(&mut client, ["a", "b", "c"]), ["{ann:1}"; 3]);
    client.say_all(["RLOCK.RENEW b ann 900000", "RLOCK.RELEASE a ann"]);
    let left = client.say("RLOCK.MACQUIRE 3 a b c bob 600000").as_int();
    assert!((890_000..=900_000).contains(&left), "the longest of those that are taken: {left}");
    let refused = client.say("RLOCK.MACQUIRE 2 c a bob 600000 FENCED");
    assert!(matches!(refused.as_list(), [Reply::Int(590_000..=600_000), Reply::Nil]), "{refused:?}");
    assert_eq!(client.keys(), ["b", "c"], "and nothing is held of what was free");
    client.say("PERSIST c");
    assert_eq!(client.say("RLOCK.MACQUIRE 2 b c bob 600000"), Reply::Int(-1));
    assert_eq!(client.say("RLOCK.MACQUIRE 1 a bob 600000"), Reply::Nil);
}

#[test]
fn what_is_granted_are_plain_locks() {
    let (_server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE b ann 100000");
    assert_eq!(client.say("RLOCK.MACQUIRE 2 a b ann 600000"), Reply::Nil);
    assert_eq!(counts(&mut client, ["a", "b"]), ["{ann:1}", "{ann:2}"]);
    let [of_a, of_b] = ["a", "b"].map(|key| client.expiry(key));
    assert!((of_a - of_b).abs() < 5_000, "leases are alike");
    assert!(client.say("RLOCK.ACQUIRE a bob 1000").as_int() > 0);
    assert_eq!(client.say("RLOCK.RENEW a ann 700000"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE b ann"), Reply::Int(0));
    assert_eq!(client.say("RLOCK.RELEASE b ann"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.ACQUIRE a ann 600000"), Reply::Nil, "and re-entered one by one");
    assert_eq!(client.say("RLOCK.MACQUIRE 2 b a ann 600000"), Reply::Nil);
    assert_eq!(counts(&mut client, ["a", "b"]), ["{ann:3}", "{ann:1}"]);
    assert_eq!(client.say("RLOCK.BREAK a"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.RELEASE b ann ALL"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

/// Ahead of any clock, so that a counter goes on by one, and each lock's tokens can be recognized.
const AHEAD: i64 = 9_000_000_000_000_000;

fn counters_are_ahead(client: &mut Client, [a, b]: [i64; 2]) {
    let set = |key: &str, count: i64| format!("SET redisson_lock_token:{{{key}}} {}", AHEAD + count);
    client.say_all([set("a", a), set("b", b)]);
}

#[test]
fn tokens_come_in_the_order_of_the_keys() {
    let (server, mut client) = Server::with_client();
    counters_are_ahead(&mut client, [10, 20]);
    let tokens = |numbers: [i64; 2]| list([Reply::Nil, list(numbers.map(|number| Reply::Int(AHEAD + number)))]);
    assert_eq!(client.say("RLOCK.MACQUIRE 2 b a ann 600000 FENCED"), tokens([21, 11]));
    assert_eq!(client.say("RLOCK.MACQUIRE 2 a b ann 600000 WAIT 0 FENCED"), tokens([12, 22]));
    client.say("RLOCK.RELEASE a ann ALL");
    let mut waiting = start_waiting(&server, "RLOCK.MACQUIRE 2 a b bob 600000 WAIT 0 FENCED");
    client.say("RLOCK.RELEASE b ann ALL");
    assert_eq!(waiting.receive(), tokens([13, 23]));
    let mut short = start_waiting(&server, "RLOCK.MACQUIRE 2 a b cid 600000 WAIT 20 FENCED");
    let received = short.receive();
    assert!(matches!(received.as_list(), [Reply::Int(500_000..), Reply::Nil]), "{received:?}");
    let one = client.say("RLOCK.MACQUIRE 1 a bob 600000 FENCED");
    assert_eq!(one, list([Reply::Nil, list([Reply::Int(AHEAD + 14)])]), "of one lock as well");
    let mut waits_for_one = start_waiting(&server, "RLOCK.MACQUIRE 1 a dan 600000 WAIT 0 FENCED");
    client.say("RLOCK.RELEASE a bob ALL");
    assert_eq!(waits_for_one.receive(), list([Reply::Nil, list([Reply::Int(AHEAD + 15)])]), "and if it waits");
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let (server, mut client) = Server::with_client();
    client.say_all(["RLOCK.RACQUIRE rw ann 600000", "RLOCK.PACQUIRE p ann 600000 LIMIT 1", "SET text 1"]);
    client.say_all(["SET redisson_lock_token:{broken} x", "RLOCK.ACQUIRE held ann 600000"]);
    let many = (0..65).map(|number| format!("k{number}")).collect::<Vec<_>>().join(" ");
    let too_many = format!("RLOCK.MACQUIRE 65 {many} ann 1000");
    let mut tap = Tap::on(&server);
    for (command, error) in [
        ("RLOCK.MACQUIRE 1 a ann", "ERR wrong number of arguments"),
        ("RLOCK.MACQUIRE 0 a ann 1000", "ERR numkeys must be"),
        ("RLOCK.MACQUIRE -1 a ann 1000", "ERR numkeys must be"),
        ("RLOCK.MACQUIRE two a b ann 1000", "ERR numkeys must be"),
        (&too_many, "ERR numkeys must be"),
        ("RLOCK.MACQUIRE 2 a ann 1000", "ERR wrong number of arguments"),
        ("RLOCK.MACQUIRE 64 a b ann 1000", "ERR wrong number of arguments"),
        ("RLOCK.MACQUIRE 2 a a ann 1000", "ERR key given twice"),
        ("RLOCK.MACQUIRE 1 a b ann 1000", "ERR lease must be"),
        ("RLOCK.MACQUIRE 2 a b ann 0", "ERR lease must be"),
        ("RLOCK.MACQUIRE 2 a b mode 1000", "ERR holder must be"),
        ("RLOCK.MACQUIRE 2 a b ann 1000 LIMIT 1", "ERR option unknown"),
        ("RLOCK.MACQUIRE 2 a b ann 1000 MAX 1", "ERR MAX needs WAIT"),
        ("RLOCK.MACQUIRE 2 a b ann 1000 WAIT -1", "ERR WAIT must be"),
        ("RLOCK.MACQUIRE 2 a b ann 1000 FENCED FENCED", "ERR option FENCED given twice"),
        ("RLOCK.MACQUIRE 2 a b ann 1000 WAIT 0 SESSION the-session-of-nobody 1", "NOSESSION"),
        ("RLOCK.MACQUIRE 2 a rw ann 1000", "WRONGKIND key is a read-write lock"),
        ("RLOCK.MACQUIRE 3 a held rw ann 1000 WAIT 0", "WRONGKIND key is a read-write lock"),
        ("RLOCK.MACQUIRE 2 a p ann 1000", "WRONGKIND key holds permits"),
        ("RLOCK.MACQUIRE 2 a text ann 1000", "WRONGTYPE"),
        ("RLOCK.MACQUIRE 2 a broken ann 1000 FENCED", "ERR fencing counter"),
        ("RLOCK.MACQUIRE 3 a c redisson_lock_token:{a} ann 1000 FENCED", "ERR fencing counter"),
        ("RLOCK.MACQUIRE 2 redisson_lock_token:{a} a ann 1000 WAIT 0 FENCED", "ERR fencing counter"),
    ] {
        let reply = client.say(command);
        assert!(reply.as_error().starts_with(error), "{command}: {reply:?}");
    }
    assert_eq!(tap.drain(), [""; 0]);
    assert_eq!(client.figure("waiters"), 0);
    for options in ["FENCED WAIT 5", "wait 0 fenced MAX 1", "FENCED max 9 Wait 1"] {
        assert_eq!(client.say(&format!("RLOCK.MACQUIRE 2 a b ann 1000 {options}")).as_list()[0], Reply::Nil);
    }
}

/// The broken counter is found only when the other locks are free.
#[test]
fn a_counter_that_breaks_meanwhile_ends_the_wait_with_none_held() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE a ann 600000");
    let mut waiting = start_waiting(&server, "RLOCK.MACQUIRE 3 a b c bob 600000 WAIT 0 FENCED");
    client.say_all(["SET redisson_lock_token:{c} x", "RLOCK.RELEASE a ann"]);
    let received = waiting.receive();
    assert!(received.as_error().starts_with("ERR fencing counter"), "{received:?}");
    assert_eq!((client.keys(), client.figure("waiters")), (vec!["redisson_lock_token:{c}".to_owned()], 0));
}

/// The server finds the keys by their number, and the module reads that number in the same way.
#[test]
fn a_user_needs_each_key() {
    let (server, mut client) = Server::with_client();
    let mut eve = server.user("eve", "~k* +rlock.macquire");
    assert_eq!(eve.say("RLOCK.MACQUIRE 2 k1 k2 eve 600000"), Reply::Nil);
    assert_eq!(eve.say("RLOCK.MACQUIRE 1 k3 other 600000"), Reply::Nil, "a holder is no key");
    for keys in ["2 other k4", "2 k4 other", "3 k4 k5 other"] {
        let reply = eve.say(&format!("RLOCK.MACQUIRE {keys} eve 600000"));
        assert!(reply.as_error().starts_with("NOPERM"), "{keys}: {reply:?}");
    }
    for number in ["02", "+2", " 2", "2.0", "0x2", "", "-2", "9", "64", "18446744073709551618"] {
        let reply = eve.run(&["RLOCK.MACQUIRE", number, "k4", "other", "eve", "600000"]);
        assert!(matches!(reply, Reply::Error(_)), "{number}: {reply:?}");
    }
    assert_eq!(client.keys(), ["k1", "k2", "k3"]);
    assert!(client.say("COMMAND GETKEYS RLOCK.MACQUIRE 2 k1 k2 eve 1000").words() == ["k1", "k2"]);
}

#[test]
fn sixty_four_locks_come_as_one() {
    let (server, mut client) = Server::with_client();
    let keys: Vec<_> = (0..64).map(|number| format!("k{number}")).collect();
    let ask = |holder: &str| format!("RLOCK.MACQUIRE 64 {} {holder} 600000 WAIT 0", keys.join(" "));
    assert_eq!(client.say(&ask("ann")), Reply::Nil);
    let mut bob = start_waiting(&server, &ask("bob"));
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(client.say("EXISTS k63"), Reply::Int(1), "after {number}");
        client.say(&format!("RLOCK.RELEASE {key} ann"));
    }
    assert_eq!(bob.receive(), Reply::Nil);
    assert!(keys.iter().all(|key| client.fields(key) == "{bob:1}"));
    assert_eq!(client.figure("waiters"), 0);
}

#[test]
fn people_on_call_see_how_many_locks_a_waiter_waits_for() {
    let (server, mut client) = Server::with_client();
    client.say_all(["RLOCK.ACQUIRE b ann 600000", "RLOCK.ACQUIRE c ann 600000"]);
    let _set = start_waiting(&server, "RLOCK.MACQUIRE 3 a b c bob 600000 WAIT 500000");
    let _single = start_waiting(&server, "RLOCK.ACQUIRE b cid 600000 WAIT 0");
    let waiters = |client: &mut Client, key: &str| {
        let seen = client.say(&format!("RLOCK.INSPECT {key}"));
        let waiters = of(&seen, "waiters").as_list().to_vec();
        assert_eq!(of(&seen, "waiter-count"), &Reply::Int(i64::try_from(waiters.len()).unwrap()));
        waiters
    };
    for key in ["a", "b", "c"] {
        let seen = waiters(&mut client, key);
        assert_eq!((of(&seen[0], "holder"), of(&seen[0], "keys")), (&text("bob"), &Reply::Int(3)), "{key}");
        assert!((400_000..=500_000).contains(&of(&seen[0], "deadline-in-ms").as_int()), "{key}");
        assert_eq!(seen.len(), if key == "b" { 2 } else { 1 }, "{key}");
    }
    assert_eq!(of(&waiters(&mut client, "b")[1], "keys"), &Reply::Int(1));
    let queues = client.say("RLOCK.QUEUES");
    let lengths: Vec<_> =
        queues.as_list().iter().map(|queue| (of(queue, "key").as_text(), of(queue, "waiters").as_int())).collect();
    assert_eq!(lengths, [("b", 2), ("a", 1), ("c", 1)]);
    assert_eq!(client.figures(["waits", "waiters", "locks_with_waiters"]), [2, 2, 3], "it counts once");
}

#[test]
fn a_session_gets_one_event_with_the_shortest_lease() {
    let (_server, mut client, mut ann) = Server::with_session();
    counters_are_ahead(&mut client, [1, 6]);
    let (ask, more) = ("RLOCK.MACQUIRE 2 a b ann 600000", "WAIT 0 FENCED");
    client.say_all(["RLOCK.ACQUIRE a holder 600000", "RLOCK.ACQUIRE b holder 600000"]);
    for _ in 0..2 {
        ann.wait_for(&format!("{ask} {more}"), "1");
    }
    for other in [
        "RLOCK.MACQUIRE 2 b a ann 600000 WAIT 0 FENCED",
        "RLOCK.MACQUIRE 3 a b c ann 600000 WAIT 0 FENCED",
        "RLOCK.MACQUIRE 1 a ann 600000 WAIT 0 FENCED",
        "RLOCK.ACQUIRE a ann 600000 WAIT 0 FENCED",
        "RLOCK.MACQUIRE 2 a b ann 600000 WAIT 0",
        "RLOCK.MACQUIRE 2 a b eve 600000 WAIT 0 FENCED",
    ] {
        let reply = ann.ask(other, "1");
        assert!(reply.as_error().starts_with("ERR ticket is in use"), "{other}: {reply:?}");
    }
    assert_eq!(client.figures(["tickets", "waits"]), [1, 1]);
    client.say_all(["RLOCK.RELEASE a holder", "RLOCK.RELEASE b holder"]);
    // A lease may change before the event is delivered.
    client.say("RLOCK.RENEW b ann 100000");
    let received = ann.call("WAIT 0");
    let tokens = list([2, 7].map(|number| Reply::Int(AHEAD + number)));
    let event = Event { seq: 1, ticket: "1".to_owned(), outcome: "granted".to_owned(), value: tokens };
    assert_eq!(received.events(), [event]);
    let [ends_in] = received.grants_end_in()[..] else { panic!("{received:?}") };
    assert!((90_000..=100_000).contains(&ends_in), "{ends_in}");
    assert_eq!(ann.ask(&format!("{ask} {more}"), "1"), text("WAITING"), "until it is acknowledged");
    assert_eq!(ann.fetch("ACK 1"), []);
    assert_eq!(ann.ask("RLOCK.MACQUIRE 2 c d ann 600000 WAIT 0", "2"), Reply::Nil, "at once, and no event");
    client.say("RLOCK.ACQUIRE e holder 600000");
    ann.wait_for("RLOCK.MACQUIRE 2 f e ann 600000 WAIT 0", "3");
    client.say("RLOCK.RELEASE e holder");
    assert_eq!(ann.fetch("WAIT 0"), [Event::granted(2, "3", None)]);
}

#[test]
fn a_client_that_dies_before_its_reply_releases_all_locks() {
    let (server, mut client) = Server::with_client();
    client.say("RLOCK.ACQUIRE b holder 600000");
    let dead = start_waiting(&server, "RLOCK.MACQUIRE 3 a b c dead 600000 WAIT 0");
    let mut bob = start_waiting(&server, "RLOCK.MACQUIRE 2 c b bob 600000 WAIT 0");
    // The client closes its connection while the server does nothing but run this transaction.
    client.send(&["MULTI"]);
    client.receive();
    client.say_all(["RLOCK.RELEASE b holder", "PING"]);
    drop(dead);
    client.say("EXEC");
    assert_eq!(bob.receive(), Reply::Nil);
    wait_until("the other lock is free", || client.keys() == ["b", "c"]);
}

/// An unattended set cannot be notified, so others get the locks; later it is served first.
#[test]
fn an_unattended_set_is_skipped_and_comes_back() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE b holder 600000");
    ann.wait_for("RLOCK.MACQUIRE 2 a b ann 600000 WAIT 0", "1");
    for _ in 0..4 {
        client.say_all(["RLOCK.ACQUIRE a passing 600000", "RLOCK.RELEASE a passing"]);
    }
    let mut kept_out = start_waiting(&server, "RLOCK.ACQUIRE a bob 600000 WAIT 0");
    assert!(is_busy(&client.say("RLOCK.ACQUIRE a cid 600000")));
    ann.hang_up(&server);
    assert_eq!(kept_out.receive(), Reply::Nil, "it keeps nothing for itself while no session is there");
    client.say("RLOCK.RELEASE b holder");
    assert_eq!(client.say("RLOCK.ACQUIRE b bob 600000"), Reply::Nil);
    let mut behind = start_waiting(&server, "RLOCK.MACQUIRE 2 b a cid 600000 WAIT 0");
    assert_eq!(ann.fetch(""), []);
    client.say("RLOCK.RELEASE a bob");
    client.say("RLOCK.RELEASE b bob");
    assert_eq!(ann.fetch("WAIT 0"), [Event::granted(1, "1", None)]);
    assert_eq!(counts(&mut client, ["a", "b"]), ["{ann:1}"; 2]);
    client.say_all(["RLOCK.RELEASE a ann", "RLOCK.RELEASE b ann"]);
    assert_eq!(behind.receive(), Reply::Nil);
}

#[test]
fn a_queue_counts_a_set_once_and_the_server_each_of_its_locks() {
    let (server, mut client) = Server::with_client();
    client.say_all(["RLOCK.ACQUIRE a ann 600000", "CONFIG SET rlock.max-waiters 5"]);
    let _first = start_waiting(&server, "RLOCK.MACQUIRE 3 a b c bob 600000 WAIT 0");
    let full = client.say("RLOCK.MACQUIRE 2 d a cid 600000 WAIT 0 MAX 1");
    assert!(full.as_error().starts_with("QUEUEFULL") && full.as_error().ends_with(": 1"), "{full:?}");
    assert_eq!(
        client.say("RLOCK.MACQUIRE 2 d e cid 600000 WAIT 0 MAX 1"),
        Reply::Nil,
        "every waiter that can be granted is"
    );
    let _second = start_waiting(&server, "RLOCK.MACQUIRE 2 a b dan 600000 WAIT 0 MAX 2");
    let is_full = |reply: &Reply| reply.as_error().starts_with("QUEUEFULL") && reply.as_error().contains("max-waiters");
    assert!(is_full(&client.say("RLOCK.ACQUIRE a eve 600000 WAIT 0")), "three and two locks are five");
    assert_eq!(client.figures(["waiters", "turned_away"]), [2, 1]);
    client.say("CONFIG SET rlock.max-waiters 7");
    assert!(is_full(&client.say("RLOCK.MACQUIRE 3 a b c eve 600000 WAIT 0")), "three are one too many");
    let _third = start_waiting(&server, "RLOCK.MACQUIRE 2 a b eve 600000 WAIT 0");
    client.say_all(["CONFIG SET rlock.max-waiters 5", "RLOCK.RELEASE a ann"]);
    client.until_waiting(2);
    let _fourth = start_waiting(&server, "RLOCK.ACQUIRE a fay 600000 WAIT 0");
    assert!(is_full(&client.say("RLOCK.ACQUIRE a gus 600000 WAIT 0")), "a granted request counts no more");
}

#[test]
fn keys_of_several_slots_are_the_servers_own_error() {
    let (_server, mut client) = node();
    let apart = client.say("RLOCK.MACQUIRE 2 {one}a {two}a ann 600000");
    assert!(apart.as_error().starts_with("CROSSSLOT"), "{apart:?}");
    assert_eq!(client.say("RLOCK.MACQUIRE 2 {one}a {one}b ann 600000 FENCED").as_list()[0], Reply::Nil);
    let odd = client.say("RLOCK.MACQUIRE 1 a}b ann 600000 FENCED");
    assert!(odd.as_error().starts_with("ERR lock name and its derived keys"), "{odd:?}");
}

/// What a script or a transaction frees is handed over after it: the grant includes locks that it has not named.
#[test]
fn on_a_node_of_a_cluster_a_transaction_touches_only_its_own_keys() {
    let (server, mut client) = node();
    for free in [["RLOCK.RELEASE {k}b ann", "PING"], ["DEL {k}b", "PING"]] {
        client.say("RLOCK.ACQUIRE {k}b ann 600000");
        let mut bob = start_waiting(&server, "RLOCK.MACQUIRE 2 {k}a {k}b bob 600000 WAIT 0");
        client.transaction(free);
        assert_eq!(bob.receive(), Reply::Nil, "{free:?}");
        client.say_all(["RLOCK.RELEASE {k}a bob", "RLOCK.RELEASE {k}b bob"]);
    }
}

/// A scene in which a set of bob's waits for both locks, while ann holds the second.
fn waits_for_both(scene: &mut Scene) -> Waiter {
    scene.say("RLOCK.ACQUIRE b ann 600000");
    scene.wait("RLOCK.MACQUIRE 2 a b bob 600000 WAIT 0")
}

fn a_set_is_granted_when_the_last_lock_is_free(scene: &mut Scene) {
    for free in [
        "RLOCK.RELEASE b ann",
        "RLOCK.BREAK b",
        "RLOCK.RENEW b ann 1",
        "DEL b",
        "UNLINK b",
        "RENAME b other",
        "MOVE b 5",
        "PEXPIRE b 1",
        "HDEL b ann",
        "SET b x PX 1",
        "FLUSHALL",
        "in a transaction",
        "in a script",
    ] {
        scene.say("RLOCK.ACQUIRE c ann 600000");
        let mut bob = waits_for_both(scene);
        let mut three = scene.wait("RLOCK.MACQUIRE 3 c b a cid 600000 WAIT 0");
        assert_eq!(scene.keys(), ["b", "c"], "and holds none meanwhile");
        match free {
            "in a transaction" => _ = scene.transaction(["DEL b", "SET x 1"]),
            "in a script" => _ = scene.run(&["EVAL", "return redis.call('DEL', KEYS[1])", "1", "b"]),
            free => assert!(!matches!(scene.say(free), Reply::Error(_)), "{free}"),
        }
        if ServerVersion::under_test().moves_clients() {
            scene.say("SELECT 0");
        }
        if free == "SET b x PX 1" {
            // A key that is no lock ends the wait, unless it is gone before the check.
            let outcome = bob.outcome();
            assert!(outcome == Outcome::Granted(None) || outcome.is_error("WRONGTYPE"), "{outcome:?}");
            scene.say("FLUSHALL");
            three.outcome();
            scene.say("FLUSHALL");
            continue;
        }
        bob.is_granted();
        assert_eq!(counts(scene, ["a", "b"]), ["{bob:1}"; 2], "{free}");
        scene.say_all(["RLOCK.RELEASE c ann", "RLOCK.RELEASE b bob", "RLOCK.RELEASE a bob"]);
        three.is_granted();
        assert_eq!(scene.figure("waiters"), 0, "{free}");
        scene.say("FLUSHALL");
    }
}

/// The ends are set in advance: if the test stalls, a round is late, and does not take another round's end for its own.
fn the_end_of_the_last_lease_grants_within_5_ms(scene: &mut Scene) {
    const ROUNDS: i64 = 10;
    let mut wanted = Wanted::by(scene.server.id());
    let late: Vec<_> = (1..=ROUNDS)
        .map(|round| {
            scene.say_all(["a", "b"].map(|key| format!("RLOCK.ACQUIRE {key} ann 600000")));
            let mut bob = scene.wait(&format!("RLOCK.MACQUIRE 2 a b h{round} 600000 WAIT 0"));
            let last = scene.time_ms() + 50;
            scene.say_all([format!("PEXPIREAT a {}", last - 20), format!("PEXPIREAT b {last}")]);
            bob.is_granted();
            let granted = scene.expiry("b") - 600_000;
            wanted.look();
            assert!(granted >= last, "a lease has its whole time");
            scene.say("FLUSHALL");
            granted - last - wanted.ms_between(last, granted)
        })
        .collect();
    assert!(median(late.clone()) <= 5, "{late:?}");
}

fn a_set_is_overtaken_four_times_at_most(scene: &mut Scene) {
    let mut bob = waits_for_both(scene);
    for number in 0..3 {
        assert_eq!(scene.say(&format!("RLOCK.ACQUIRE a p{number} 600000")), Reply::Nil);
        assert_eq!(scene.say(&format!("RLOCK.ACQUIRE a p{number} 600000")), Reply::Nil, "a re-entry passes no waiter");
        assert_eq!(scene.say(&format!("RLOCK.RELEASE a p{number} ALL")), Reply::Int(1));
    }
    scene.say("RLOCK.ACQUIRE a last 600000");
    let mut cid = scene.wait("RLOCK.ACQUIRE a cid 600000 WAIT 0");
    scene.say("RLOCK.RELEASE a last");
    assert_eq!((scene.keys(), scene.figure("waiters")), (vec!["b".to_owned()], 2), "now it is kept");
    for other in ["ACQUIRE a", "MACQUIRE 1 a", "MACQUIRE 2 c a"] {
        let reply = scene.say(&format!("RLOCK.{other} dan 600000"));
        assert!((590_000..=600_000).contains(&reply.as_int()), "{other} gets the time when b can be free: {reply:?}");
    }
    for kind in ["RACQUIRE a dan 600000", "PACQUIRE a dan 600000 LIMIT 1", "ACQUIRE a dan 600000 WAIT 1"] {
        assert!(scene.say(&format!("RLOCK.{kind}")).as_int() > 500_000, "{kind}");
    }
    scene.say("PERSIST b");
    assert_eq!(scene.say("RLOCK.ACQUIRE a dan 600000"), Reply::Int(1_000), "b has no end");
    assert_eq!(scene.say("RLOCK.RELEASE b ann"), Reply::Int(1));
    bob.is_granted();
    scene.say("RLOCK.RELEASE a bob");
    cid.is_granted();
    assert_eq!(scene.say("RLOCK.RELEASE b bob"), Reply::Int(1));
}

fn sets_with_the_same_locks_come_in_order(scene: &mut Scene) {
    scene.say("RLOCK.MACQUIRE 2 a b ann 600000");
    let mut line: Vec<_> = (0..6)
        .map(|number| {
            let keys = if number % 2 == 0 { "a b" } else { "b a" };
            scene.wait(&format!("RLOCK.MACQUIRE 2 {keys} h{number} 600000 WAIT 0"))
        })
        .collect();
    let mut holder = "ann".to_owned();
    for (number, waiter) in line.iter_mut().enumerate() {
        scene.say(&format!("RLOCK.RELEASE a {holder}"));
        scene.say(&format!("RLOCK.RELEASE b {holder}"));
        waiter.is_granted();
        holder = format!("h{number}");
    }
}

fn a_wait_that_ends_replies_the_longest_lease(scene: &mut Scene) {
    scene.say_all(["RLOCK.ACQUIRE a ann 300000", "RLOCK.ACQUIRE b ann 600000"]);
    let mut bob = scene.wait("RLOCK.MACQUIRE 3 a b c bob 600000 WAIT 20");
    let outcome = bob.outcome();
    assert!(matches!(outcome, Outcome::TimeIsUp(590_000..=600_000)), "{outcome:?}");
    assert_eq!(scene.figures(["waiters", "timeouts", "waits"]), [0, 1, 1]);
    let mut behind = scene.wait("RLOCK.MACQUIRE 2 c a first 600000 WAIT 1000");
    scene.say_all((0..4).flat_map(|_| ["RLOCK.ACQUIRE c p 600000", "RLOCK.RELEASE c p"]));
    let mut cid = scene.wait("RLOCK.MACQUIRE 1 c cid 600000 WAIT 0");
    assert!(matches!(behind.outcome(), Outcome::TimeIsUp(_)));
    cid.is_granted();
}

fn a_waiter_that_leaves_leaves_all_queues(scene: &mut Scene) {
    let mut kept_out = Vec::new();
    for number in 0..2 {
        let bob = waits_for_both(scene);
        scene.say_all((0..4).flat_map(|_| ["RLOCK.ACQUIRE a p 600000", "RLOCK.RELEASE a p"]));
        kept_out.push(scene.wait(&format!("RLOCK.ACQUIRE a cid{number} 600000 WAIT 0")));
        let mut watch = scene.server.client();
        bob.leave(&mut watch);
        kept_out[number].is_granted();
        assert_eq!(scene.say("RLOCK.RELEASE b ann"), Reply::Int(1));
        assert_eq!(scene.keys(), ["a"]);
        scene.say(&format!("RLOCK.RELEASE a cid{number}"));
        assert_eq!(scene.figure("waiters"), 0);
    }
}

fn a_grace_keeps_all_out(scene: &mut Scene) {
    scene.say_all(["RLOCK.MACQUIRE 2 a b ann 600000"]);
    begin(scene, LONG_MS);
    let mut again = scene.wait("RLOCK.MACQUIRE 2 b a ann 700000 WAIT 0");
    let mut bob = scene.wait("RLOCK.MACQUIRE 2 c d bob 600000 WAIT 0");
    assert!(scene.say("RLOCK.MACQUIRE 2 e f cid 600000").as_int() > LONG_MS / 2);
    let too_long = scene.say(&format!("RLOCK.MACQUIRE 2 e f cid {}", LONG_MS + 1));
    assert!(too_long.as_error().starts_with("ERR lease must be"), "{too_long:?}");
    assert_eq!(scene.say("RLOCK.RELEASE a ann"), Reply::Int(1));
    assert_eq!((scene.keys(), scene.figure("waiters")), (vec!["b".to_owned()], 2));
    end(scene);
    again.is_granted();
    bob.is_granted();
    assert_eq!(counts(scene, ["a", "b", "c"]), ["{ann:1}", "{ann:2}", "{bob:1}"]);
}

fn a_full_server_grants_nothing(scene: &mut Scene) {
    let mut bob = waits_for_both(scene);
    scene.say("CONFIG SET maxmemory 1");
    assert!(scene.say("RLOCK.MACQUIRE 2 c d ann 600000").as_error().starts_with("OOM"));
    assert_eq!(scene.say("RLOCK.RELEASE b ann"), Reply::Int(1));
    assert_eq!((scene.keys(), scene.figure("waiters")), (vec![], 1));
    scene.say("CONFIG SET maxmemory 0");
    bob.is_granted();
}

fn a_lock_that_becomes_another_kind_ends_the_wait(scene: &mut Scene) {
    for (make, error) in [("HSET b mode read cid 1", "WRONGKIND"), ("SET b text", "WRONGTYPE")] {
        let mut bob = waits_for_both(scene);
        scene.transaction(["DEL b", make]);
        let outcome = bob.outcome();
        assert!(outcome.is_error(error), "{make}: {outcome:?}");
        assert_eq!(scene.keys(), ["b"], "{make}");
        scene.say("DEL b");
    }
}
