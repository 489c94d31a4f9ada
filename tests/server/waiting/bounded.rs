//! MAX: who does not want to wait behind as many as there are is told so at once, and is not in the queue.

use super::for_all_waiters;
use super::scene::{Outcome, Scene};
use crate::grace::{LONG_MS, begin, end};
use rlock_testing::{Reply, Server, start_waiting, text};

for_all_waiters!(
    who_would_wait_behind_too_many_is_turned_away,
    whoever_can_have_the_lock_at_once_has_it,
    those_who_wait_for_something_else_do_not_count,
    in_a_grace_those_count_who_wait_for_a_free_lock,
);

#[track_caller]
fn is_turned_away(reply: &Reply, waiting: usize) {
    let expected = format!("QUEUEFULL as many wait for this lock as MAX allows, or more: {waiting}");
    assert_eq!(reply, &Reply::Error(expected));
}

fn who_would_wait_behind_too_many_is_turned_away(scene: &mut Scene) {
    for (kind, other) in [("ACQUIRE", "ACQUIRE"), ("WACQUIRE", "RACQUIRE"), ("RACQUIRE", "WACQUIRE")] {
        scene.say(&format!("RLOCK.{kind} k ann 600000"));
        let ask = |name: &str, options: &str| format!("RLOCK.{other} k {name} 600000{options} WAIT 0");
        let mut bob = scene.wait(&ask("bob", " MAX 1"));
        for options in [" MAX 1", " MAX 1 FENCED"] {
            is_turned_away(&scene.ask(&ask("cid", options)), 1);
        }
        let mut cid = scene.wait(&ask("cid", " FENCED MAX 2"));
        let dan = scene.wait(&ask("dan", ""));
        for max in 1..=3 {
            is_turned_away(&scene.ask(&ask("eve", &format!(" MAX {max}"))), 3);
        }
        assert_eq!((scene.figure("waiters"), scene.figure("refusals")), (3, 0));
        // Who leaves makes room for another.
        dan.leave(scene);
        let mut eve = scene.wait(&ask("eve", " MAX 3"));
        is_turned_away(&scene.ask(&ask("fay", " MAX 3")), 3);
        scene.say("RLOCK.RELEASE k ann");
        bob.is_granted();
        scene.say("RLOCK.RELEASE k bob");
        assert!(matches!(cid.outcome(), Outcome::Granted(Some(_))));
        scene.say("RLOCK.RELEASE k cid");
        eve.is_granted();
        assert_eq!(scene.say("RLOCK.RELEASE k eve"), Reply::Int(1));
    }
    assert_eq!((scene.figure("turned_away"), scene.figure("waiters")), (18, 0));
}

fn whoever_can_have_the_lock_at_once_has_it(scene: &mut Scene) {
    for side in ["", "R", "W"] {
        let ask = |name: &str| format!("RLOCK.{side}ACQUIRE k{side} {name} 600000 WAIT 0 MAX 1");
        assert_eq!(scene.ask(&ask("ann")), Reply::Nil, "a lock that is free");
        let writes = if side == "R" { "W" } else { side };
        let waits = format!("RLOCK.{writes}ACQUIRE k{side} bob 600000 WAIT 0");
        let _waiters = [scene.wait(&waits), scene.wait(&waits)];
        is_turned_away(&scene.ask(&ask("cid")), 2);
        assert_eq!(scene.ask(&ask("ann")), Reply::Nil, "its own lock");
    }
    for reader in ["ann", "bob", "cid"] {
        let ask = format!("RLOCK.RACQUIRE shared {reader} 600000 WAIT 0 MAX 1");
        assert_eq!(scene.ask(&ask), Reply::Nil, "a lock that others read");
    }
    assert_eq!(scene.figure("turned_away"), 3);
}

fn those_who_wait_for_something_else_do_not_count(scene: &mut Scene) {
    for key in ["k", "l"] {
        scene.say(&format!("RLOCK.ACQUIRE {key} ann 600000"));
    }
    scene.say("SELECT 1");
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let _others = start_waiting(scene.server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    let _first = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0 MAX 1");
    let by_a_client = "RLOCK.ACQUIRE k cid 600000 WAIT 1 MAX 1";
    assert!(scene.say(by_a_client).as_int() > 0, "nobody waits for the lock of this name in the other database");
    scene.say("SELECT 0");
    is_turned_away(&scene.say(by_a_client), 1);
}

fn in_a_grace_those_count_who_wait_for_a_free_lock(scene: &mut Scene) {
    scene.say(&format!("RLOCK.ACQUIRE held ann {LONG_MS}"));
    begin(scene, LONG_MS);
    for key in ["free", "held"] {
        let ask = |name: &str, options: &str| format!("RLOCK.ACQUIRE {key} {name} 600000{options} WAIT 0");
        let mut bob = scene.wait(&ask("bob", " MAX 1"));
        is_turned_away(&scene.ask(&ask("cid", " MAX 1")), 1);
        is_turned_away(&scene.ask(&ask("ann", " MAX 1")), 1);
        assert!(scene.say(&format!("RLOCK.ACQUIRE {key} cid 600000")).as_int() > 0, "who only tries is told when to");
        scene.say(&format!("RLOCK.BREAK {key}"));
        end(scene);
        bob.is_granted();
        begin(scene, LONG_MS);
    }
}

/// Where nobody can be blocked it is as if neither WAIT nor MAX were there. A ticket waits from there, or does not.
#[test]
fn in_transactions_and_scripts_only_tickets_are_turned_away() {
    let (server, mut client, ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    let _bob = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let ask = "RLOCK.ACQUIRE k ann 600000 WAIT 0 MAX 1".to_owned();
    let by_ticket = |max: usize| format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 MAX {max} SESSION {} 1", ann.name);
    let replies = client.transaction([ask, by_ticket(1), by_ticket(2), by_ticket(1)]);
    assert!(replies[0].as_int() > 0, "{replies:?}");
    is_turned_away(&replies[1], 1);
    assert_eq!(replies[2..], [text("WAITING"), text("WAITING")], "the second time it waits already");
    let script = "return redis.pcall('RLOCK.ACQUIRE', KEYS[1], 'cid', '600000', 'WAIT', '0', 'MAX', '1', unpack(ARGV))";
    assert!(client.run(&["EVAL", script, "1", "k"]).as_int() > 0);
    is_turned_away(&client.run(&["EVAL", script, "1", "k", "SESSION", &ann.name, "2"]), 2);
    assert_eq!(client.figures(["waiters", "tickets", "refusals", "turned_away"]), [2, 1, 2, 2]);
}

/// Neither while it waits, nor when it was told and that is not acknowledged.
#[test]
fn a_ticket_that_is_sent_again_is_not_turned_away() {
    let (_server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    let ask = "RLOCK.ACQUIRE k ann 600000 WAIT 0 MAX 1";
    ann.wait_for(ask, "1");
    ann.wait_for("RLOCK.ACQUIRE k bob 600000 WAIT 0", "2");
    assert_eq!(ann.ask(ask, "1"), text("WAITING"));
    is_turned_away(&ann.ask(ask, "3"), 2);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(ann.told("").len(), 1);
    assert_eq!(ann.ask(ask, "1"), text("WAITING"));
    assert_eq!((client.figure("waiters"), client.figure("turned_away")), (1, 1));
}

/// They keep their places, and are served before those who came later once somebody is there for them.
#[test]
fn tickets_that_nobody_attends_count() {
    let (server, mut client, mut ann) = Server::with_session();
    client.say("RLOCK.ACQUIRE k holder 600000");
    ann.told("TTL 600000");
    ann.wait_for("RLOCK.ACQUIRE k ann 600000 WAIT 0", "1");
    ann.hang_up(&server);
    is_turned_away(&client.say("RLOCK.ACQUIRE k bob 600000 WAIT 0 MAX 1"), 1);
    client.say("RLOCK.RELEASE k holder");
    assert_eq!(client.say("RLOCK.ACQUIRE k bob 600000 WAIT 0 MAX 1"), Reply::Nil, "but the lock is free to others");
}
