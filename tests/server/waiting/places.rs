//! A holder waits once for a lock: its later request replaces the earlier one, which gets an error that says so.

use super::for_all_waiters;
use super::scene::{First, Outcome, Scene, Waiter};
use crate::grace::{LONG_MS, begin, end};
use crate::inspect::of;
use rlock_testing::{Client, Event, Reply, Server, Session, start_waiting, text};

for_all_waiters!(a_try_takes_no_place);

const REPLACED: &str = "UNBLOCKED another request of this holder took its place";

/// How the earlier request waits, and how the later one.
const KINDS: [[First; 2]; 4] = [
    [First::Client, First::Client],
    [First::Ticket, First::Ticket],
    [First::Client, First::Ticket],
    [First::Ticket, First::Client],
];

fn for_all_kinds(promise: impl Fn(&mut Scene, [First; 2])) {
    for kinds in KINDS {
        println!("{kinds:?}");
        promise(&mut Scene::at(&Server::start(), First::Client), kinds);
    }
}

#[track_caller]
fn is_replaced(waiter: &mut Waiter) {
    assert_eq!(waiter.outcome(), Outcome::Error(REPLACED.to_owned()));
}

/// What INSPECT shows of a lock's waiters under one name, in their order.
fn shown(client: &mut Client, key: &str, name: &str) -> Vec<Reply> {
    let seen = client.say(&format!("RLOCK.INSPECT {key}"));
    of(&seen, "waiters").as_list().iter().map(|waiter| of(waiter, name).clone()).collect()
}

#[test]
fn a_later_request_is_served_in_the_place_of_the_earlier() {
    for_all_kinds(|scene, [earlier, later]| {
        let mut last = 0;
        for (take, ask, again, side) in [
            ("ACQUIRE", "ACQUIRE", "ACQUIRE", "exclusive"),
            ("WACQUIRE", "WACQUIRE", "WACQUIRE", "write"),
            ("WACQUIRE", "RACQUIRE", "RACQUIRE", "read"),
            ("WACQUIRE", "RACQUIRE", "WACQUIRE", "write"),
            ("WACQUIRE", "WACQUIRE", "RACQUIRE", "read"),
            ("PACQUIRE", "PACQUIRE", "PACQUIRE", "permit"),
        ] {
            let limit = if side == "permit" { " LIMIT 1" } else { "" };
            scene.say(&format!("RLOCK.{take} k holder 600000{limit}"));
            let mut first = scene.wait(&format!("RLOCK.{take} k first 600000{limit} WAIT 0"));
            let mut old = scene.wait_as(earlier, &format!("RLOCK.{ask} k ann 600000{limit} WAIT 300000"));
            let mut behind = scene.wait(&format!("RLOCK.{take} k behind 600000{limit} WAIT 0"));
            let mut new = scene.wait_as(later, &format!("RLOCK.{again} k ann 600000{limit} WAIT 0 FENCED"));
            is_replaced(&mut old);
            assert_eq!(shown(scene, "k", "holder"), ["first", "ann", "behind"].map(text), "{ask} {again}");
            assert_eq!(shown(scene, "k", "side")[1], text(side), "{ask} {again}");
            assert_eq!(
                shown(scene, "k", "deadline-in-ms")[1],
                Reply::Nil,
                "it waits for as long as the later one says"
            );
            scene.say("RLOCK.RELEASE k holder");
            first.is_granted();
            scene.say("RLOCK.RELEASE k first");
            let token = new.outcome().token();
            assert!(last < token, "{ask} {again}: {token} after {last}");
            last = token;
            assert_eq!(scene.say("RLOCK.RELEASE k ann"), Reply::Int(1), "a holder that waits once is granted once");
            behind.is_granted();
            scene.say("RLOCK.RELEASE k behind");
        }
        assert_eq!((scene.keys(), scene.figure("waiters")), (vec!["redisson_lock_token:{k}".to_owned()], 0));
    });
}

#[test]
fn a_writer_that_asks_to_read_keeps_no_reader_out() {
    for_all_kinds(|scene, [earlier, later]| {
        for is_alone in [false, true] {
            scene.say("RLOCK.RACQUIRE k holder 600000");
            let mut writer = scene.wait_as(earlier, "RLOCK.WACQUIRE k ann 600000 WAIT 0");
            let mut behind = (!is_alone).then(|| scene.wait("RLOCK.RACQUIRE k bob 600000 WAIT 0"));
            let mut reader = scene.wait_as(later, "RLOCK.RACQUIRE k ann 600000 WAIT 0");
            assert_eq!(scene.figure("waiters"), 0, "not when the lock is next looked at anyway");
            is_replaced(&mut writer);
            reader.is_granted();
            behind.iter_mut().for_each(Waiter::is_granted);
            scene.say("FLUSHALL");
        }
    });
}

fn a_try_takes_no_place(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k holder 600000");
    let mut ann = scene.wait("RLOCK.ACQUIRE k ann 600000 WAIT 0");
    assert!(scene.say("RLOCK.ACQUIRE k ann 600000").as_int() > 0);
    assert!(scene.transaction(["RLOCK.ACQUIRE k ann 600000 WAIT 0"])[0].as_int() > 0, "which blocks no client");
    scene.say("RLOCK.RELEASE k holder");
    ann.is_granted();
}

#[test]
fn the_same_locks_in_another_order_are_the_same_request() {
    for_all_kinds(|scene, [earlier, later]| {
        scene.say("RLOCK.MACQUIRE 3 a b c holder 600000");
        let mut old = scene.wait_as(earlier, "RLOCK.MACQUIRE 3 a b c ann 600000 WAIT 0");
        let mut behind = scene.wait("RLOCK.MACQUIRE 2 c b behind 600000 WAIT 0");
        let mut new = scene.wait_as(later, "RLOCK.MACQUIRE 3 c a b ann 600000 WAIT 0");
        is_replaced(&mut old);
        for (key, holders) in [("a", &["ann"][..]), ("b", &["ann", "behind"]), ("c", &["ann", "behind"])] {
            let expected: Vec<_> = holders.iter().map(|holder| text(holder)).collect();
            assert_eq!(shown(scene, key, "holder"), expected, "{key}");
        }
        assert_eq!(scene.figures(["waiters", "locks_with_waiters", "longest_queue"]), [2, 3, 2]);
        scene.say_all(["a", "b", "c"].map(|key| format!("RLOCK.RELEASE {key} holder")));
        new.is_granted();
        assert_eq!(["a", "b", "c"].map(|key| scene.fields(key)), ["{ann:1}"; 3]);
        scene.say_all(["b", "c"].map(|key| format!("RLOCK.RELEASE {key} ann")));
        behind.is_granted();
    });
}

#[test]
fn other_locks_are_another_request() {
    for_all_kinds(|scene, [earlier, later]| {
        scene.say("RLOCK.MACQUIRE 3 a b c holder 600000");
        let mut waiters = vec![scene.wait_as(earlier, "RLOCK.MACQUIRE 2 a b ann 600000 WAIT 0")];
        for ask in ["MACQUIRE 3 a b c", "MACQUIRE 2 b c", "MACQUIRE 1 a", "ACQUIRE a"] {
            waiters.push(scene.wait_as(later, &format!("RLOCK.{ask} ann 600000 WAIT 0")));
        }
        assert_eq!(scene.figure("waiters"), 5);
        let again = scene.wait_as(later, "RLOCK.ACQUIRE a ann 600000 WAIT 0");
        is_replaced(&mut std::mem::replace(&mut waiters[4], again));
        assert_eq!(scene.figure("waiters"), 5);
        scene.say_all(["a", "b", "c"].map(|key| format!("RLOCK.RELEASE {key} holder")));
        waiters.iter_mut().for_each(Waiter::is_granted);
        assert_eq!(["a", "b", "c"].map(|key| scene.fields(key)), ["{ann:4}", "{ann:3}", "{ann:2}"]);
    });
}

#[test]
fn the_bound_on_the_queue_holds_no_later_request_back() {
    for_all_kinds(|scene, [earlier, later]| {
        scene.say("RLOCK.ACQUIRE k holder 600000");
        let _bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let mut old = scene.wait_as(earlier, "RLOCK.ACQUIRE k ann 600000 WAIT 0 MAX 2");
        let _new = scene.wait_as(later, "RLOCK.ACQUIRE k ann 600000 WAIT 0 MAX 1");
        is_replaced(&mut old);
        assert!(scene.ask("RLOCK.ACQUIRE k cid 600000 WAIT 0 MAX 2").as_error().ends_with(": 2"));
        assert_eq!(scene.figures(["waiters", "turned_away"]), [2, 1]);
    });
}

/// A replaced ticket leaves an event, which takes as much room.
#[test]
fn a_blocked_client_leaves_its_room_to_a_blocked_client() {
    for_all_kinds(|scene, kinds| {
        let [earlier, later] = kinds;
        scene.say_all(["CONFIG SET rlock.max-waiters 2", "CONFIG SET rlock.max-tickets 2"]);
        scene.say("RLOCK.ACQUIRE k holder 600000");
        let other = if earlier == First::Client { First::Ticket } else { First::Client };
        let mut old = scene.wait_as(earlier, "RLOCK.MACQUIRE 2 k l ann 600000 WAIT 0");
        let _other = scene.wait_as(other, "RLOCK.MACQUIRE 2 k l bob 600000 WAIT 0");
        let again = "RLOCK.MACQUIRE 2 l k ann 600000 WAIT 0";
        let mut ann = if kinds == [First::Client; 2] {
            let new = scene.wait_as(later, again);
            is_replaced(&mut old);
            new
        } else {
            let limit = if later == First::Client { "rlock.max-waiters" } else { "rlock.max-tickets" };
            let refused = scene.ask_as(later, again);
            let line = refused.as_error();
            assert!(line.starts_with("QUEUEFULL ") && line.contains(limit), "{line}");
            old
        };
        assert_eq!(scene.figure("waiters"), 2);
        scene.say("RLOCK.RELEASE k holder");
        ann.is_granted();
    });
}

/// The later request then has its place, and keeps it.
#[test]
fn a_client_that_goes_when_its_place_is_taken_takes_nothing_along() {
    for how in ["CLIENT KILL ID #", "CLIENT UNBLOCK # TIMEOUT", "CLIENT UNBLOCK # ERROR"] {
        let (server, mut client, mut ann) = Server::with_session();
        client.say("RLOCK.ACQUIRE k holder 600000");
        let mut old = server.client();
        let id = old.say("CLIENT ID").as_int().to_string();
        old.send(&["RLOCK.ACQUIRE", "k", "ann", "600000", "WAIT", "0"]);
        client.until_waiting(1);
        let again = format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {} 1", ann.name);
        client.transaction([again, how.replace('#', &id)]);
        // Some servers lose the reply, and the connection is closed.
        let reply = old.try_receive();
        assert!(reply.as_ref().is_none_or(|reply| reply.as_error().starts_with("UNBLOCKED ")), "{how}: {reply:?}");
        assert_eq!(client.figures(["waiters", "tickets", "revocations_due"]), [1, 1, 0], "{how}");
        client.say("RLOCK.RELEASE k holder");
        assert_eq!(ann.fetch("WAIT 1000"), [Event::granted(1, "1", None)], "{how}");
        assert_eq!(client.fields("k"), "{ann:1}", "{how}");
    }
}

/// A process that was restarted goes by the same holder, and its former session is unattended.
#[test]
fn the_place_of_an_unattended_ticket_is_taken() {
    let (server, mut client, mut ann) = Server::with_session();
    for (number, ask) in (1..).zip(["ACQUIRE k", "MACQUIRE 2 k l"]) {
        client.say(&format!("RLOCK.{ask} holder 600000"));
        ann.wait_for(&format!("RLOCK.{ask} ann 600000 WAIT 0"), "1");
        let mut bob = start_waiting(&server, &format!("RLOCK.{ask} bob 600000 WAIT 0"));
        ann.hang_up(&server);
        let mut restarted = Session::open(&server, "restarted");
        restarted.wait_for(&format!("RLOCK.{ask} ann 600000 WAIT 0"), "1");
        client.say_all(["RLOCK.RELEASE k holder", "RLOCK.RELEASE l holder"]);
        assert_eq!(restarted.fetch("WAIT 1000"), [Event::granted(1, "1", None)], "{ask}");
        let replaced =
            Event { seq: number, ticket: "1".to_owned(), outcome: "error".to_owned(), value: text(REPLACED) };
        assert_eq!(ann.fetch(""), [replaced], "{ask}");
        assert_eq!(ann.fetch(&format!("ACK {number}")), []);
        client.say_all(["RLOCK.RELEASE k ann", "RLOCK.RELEASE l ann"]);
        assert_eq!(bob.receive(), Reply::Nil, "{ask}");
        restarted.cancel("");
        client.say("FLUSHALL");
    }
}

#[test]
fn a_reentry_in_a_grace_stays_in_front() {
    for_all_kinds(|scene, [earlier, later]| {
        scene.say(&format!("RLOCK.ACQUIRE k ann {LONG_MS}"));
        begin(scene, LONG_MS);
        let _bob = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0");
        let mut old = scene.wait_as(earlier, "RLOCK.ACQUIRE k ann 600000 WAIT 0");
        let mut new = scene.wait_as(later, "RLOCK.ACQUIRE k ann 600000 WAIT 0");
        is_replaced(&mut old);
        assert_eq!(shown(scene, "k", "holder"), ["ann", "bob"].map(text));
        end(scene);
        new.is_granted();
        assert_eq!((&*scene.fields("k"), scene.figure("waiters")), ("{ann:2}", 1));
    });
}
