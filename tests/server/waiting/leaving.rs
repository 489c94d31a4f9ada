//! How a waiter leaves the queue, or never gets into it.

use super::for_all_waiters;
use super::scene::{Outcome, Scene};
use rlock_testing::{Reply, Server, start_waiting};

for_all_waiters!(a_wait_ends_at_its_deadline, a_waiter_that_goes_leaves_the_queue);

fn a_wait_ends_at_its_deadline(scene: &mut Scene) {
    for (key, side) in [("plain", ""), ("read", "R"), ("written", "W")] {
        scene.say(&format!("RLOCK.{}ACQUIRE {key} ann 600000", if side.is_empty() { "" } else { "W" }));
        let asked = scene.time_ms();
        let mut line = ["bob 600000 WAIT 30", "cid 600000 WAIT 31 FENCED"]
            .map(|ask| scene.wait(&format!("RLOCK.{side}ACQUIRE {key} {ask}")));
        for waiter in &mut line {
            let outcome = waiter.outcome();
            assert!(matches!(outcome, Outcome::TimeIsUp(1..=599_970)), "{key}: {outcome:?}");
        }
        assert!(scene.time_ms() >= asked + 31);
        scene.say(&format!("PERSIST {key}"));
        let mut endless = scene.wait(&format!("RLOCK.{side}ACQUIRE {key} bob 600000 WAIT 1"));
        assert_eq!(endless.outcome(), Outcome::TimeIsUp(-1), "{key}");
        scene.say(&format!("RLOCK.RELEASE {key} ann"));
        assert_eq!(scene.expiry(key), -2, "who no longer waits is not granted");
    }
    assert_eq!((scene.figure("waiters"), scene.figure("timeouts")), (0, 9));
}

fn a_waiter_that_goes_leaves_the_queue(scene: &mut Scene) {
    scene.say("RLOCK.ACQUIRE k ann 600000");
    let [first, mut bob, second, mut cid] =
        ["first", "bob", "second", "cid"].map(|name| scene.wait(&format!("RLOCK.ACQUIRE k {name} 600000 WAIT 0")));
    for gone in [first, second] {
        gone.leave(scene);
    }
    assert_eq!((scene.figure("waiters"), scene.figure("cancelled")), (2, 2));
    scene.say("RLOCK.RELEASE k ann");
    bob.is_granted();
    scene.say("RLOCK.RELEASE k bob");
    cid.is_granted();
}

#[test]
fn a_full_queue_turns_clients_away() {
    let (server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.max-waiters 2");
    client.say("RLOCK.ACQUIRE k ann 600000");
    client.say("RLOCK.ACQUIRE l ann 600000");
    let first = start_waiting(&server, "RLOCK.ACQUIRE k bob 600000 WAIT 0");
    let _second = start_waiting(&server, "RLOCK.ACQUIRE l bob 600000 WAIT 0");
    for most in [2, 0] {
        client.say(&format!("CONFIG SET rlock.max-waiters {most}"));
        assert!(client.say("RLOCK.ACQUIRE k cid 600000 WAIT 0").as_error().starts_with("QUEUEFULL"), "{most}");
        assert_eq!(client.figure("waiters"), 2, "present waiters are not sent away");
        assert_eq!(client.say("RLOCK.ACQUIRE m cid 600000 WAIT 0"), Reply::Nil, "who does not wait goes on");
        assert!(client.say("RLOCK.ACQUIRE k cid 600000").as_int() > 0, "who does not wait goes on");
    }
    client.say("CONFIG SET rlock.max-waiters 2");
    drop(first);
    client.until_waiting(1);
    let _third = start_waiting(&server, "RLOCK.ACQUIRE k cid 600000 WAIT 0");
}
