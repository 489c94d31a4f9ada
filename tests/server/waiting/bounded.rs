//! MAX: a request that would wait behind too many is refused at once, and is not in the queue.

use super::for_all_waiters;
use super::scene::{Outcome, Scene};
use rlock_testing::{Reply, Server, start_waiting, text};

for_all_waiters!(a_request_behind_too_many_waiters_is_refused, waiters_of_other_locks_do_not_count,);

#[track_caller]
fn is_turned_away(reply: &Reply, waiting: usize) {
    let expected = format!("QUEUEFULL as many wait for this lock as MAX allows, or more: {waiting}");
    assert_eq!(reply, &Reply::Error(expected));
}

fn a_request_behind_too_many_waiters_is_refused(scene: &mut Scene) {
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
        // A waiter that leaves makes room for another.
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

fn waiters_of_other_locks_do_not_count(scene: &mut Scene) {
    for key in ["k", "l"] {
        scene.say(&format!("RLOCK.ACQUIRE {key} ann 600000"));
    }
    scene.say("SELECT 1");
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let _others = start_waiting(scene.server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    let _first = scene.wait("RLOCK.ACQUIRE k bob 600000 WAIT 0 MAX 1");
    let by_a_client = "RLOCK.ACQUIRE k cid 600000 WAIT 1 MAX 1";
    assert!(scene.say(by_a_client).as_int() > 0, "no client waits for the lock of this name in the other database");
    scene.say("SELECT 0");
    is_turned_away(&scene.say(by_a_client), 1);
}

/// Where a client cannot be blocked, WAIT and MAX have no effect. A ticket waits from there, or is refused.
#[test]
fn in_transactions_and_scripts_only_tickets_are_refused() {
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
