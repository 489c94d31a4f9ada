//! In a cluster: the answer is in the lock's slot, or the name is refused. While a slot moves, no caller leads where another
//! node may have the answer.

use super::gets_of;
use crate::cluster::node;
use crate::waiting::scene::{First, Outcome, Scene};
use rlock_testing::{Client, Cluster, Reply, text};

#[test]
fn an_answer_is_in_the_slot_of_its_lock() {
    let (_server, mut client) = node();
    for name in ["k", "{k}", "a{k}b", "orders:42", "{k}}", "a{k}{m}", "k\u{e9}"] {
        assert_eq!(client.run(&["RLOCK.ONCE", name, "ann", "600000"]), Reply::Nil, "{name}");
        assert_eq!(client.run(&["RLOCK.ANSWER", name, "ann", "42", "KEEP", "600000"]), Reply::Int(1), "{name}");
        assert_eq!(client.run(&["RLOCK.ONCE", name, "bob", "600000"]), text("42"), "{name}");
        let [key] = &client.keys()[..] else { panic!("one key is left of {name}") };
        let slot = |client: &mut Client, key: &str| client.run(&["CLUSTER", "KEYSLOT", key]);
        assert_eq!(slot(&mut client, &key.clone()), slot(&mut client, name), "{name}: {key}");
        client.say("FLUSHALL");
    }
}

#[test]
fn names_that_lose_their_slot_are_refused() {
    let (_server, mut client) = node();
    for name in ["foo{", "a{}b", "}{", "a}b", ""] {
        for command in [&["RLOCK.ONCE", name, "ann", "600000"][..], &["RLOCK.ONCE", name, "ann", "600000", "WAIT", "0"]]
        {
            let reply = client.run(command);
            assert!(reply.as_error().starts_with("ERR lock name and its derived keys"), "{command:?}: {reply:?}");
        }
        assert_eq!(client.keys(), [""; 0]);
        assert_eq!(client.run(&["RLOCK.ACQUIRE", name, "ann", "600000"]), Reply::Nil);
        let reply = client.run(&["RLOCK.ANSWER", name, "ann", "42", "KEEP", "600000"]);
        assert!(reply.as_error().starts_with("ERR lock name and its derived keys"), "{name}: {reply:?}");
        assert_eq!(client.keys(), [name], "it is held as before");
        client.run(&["RLOCK.RELEASE", name, "ann"]);
    }
}

/// Waiting callers get an error, and the new owner of the slot has the leader.
#[test]
fn a_slot_that_moves_takes_the_leader_along() {
    let cluster = Cluster::start();
    let key = cluster.key_on(0);
    let mut here = Scene::at(&cluster.masters[0], First::Client);
    assert_eq!(here.say(&format!("RLOCK.ONCE {key} ann 600000")), Reply::Nil);
    let ask = |name: &str| format!("RLOCK.ONCE {key} {name} 600000 WAIT 0");
    let mut waiters = ["bob", "cid"].map(|name| here.wait(&ask(name)));
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    let still = here.say(&format!("RLOCK.ONCE {key} dan 600000"));
    assert!((1..=600_000).contains(&still.as_int()), "it is held: {still:?}");
    slot.move_keys();
    slot.finish();
    for waiter in &mut waiters {
        let outcome = waiter.outcome();
        assert!(outcome.is_error("TRYAGAIN"), "{outcome:?}");
    }
    let mut there = Scene::at(&cluster.masters[1], First::Client);
    let mut waiters = ["bob", "cid"].map(|name| there.wait(&ask(name)));
    assert_eq!(there.say(&format!("RLOCK.ANSWER {key} ann 42 KEEP 600000")), Reply::Int(1));
    for waiter in &mut waiters {
        gets_of(&mut there, &key, waiter, "42");
    }
}

/// The leader answers at the node that has the lock.
#[test]
fn an_answer_while_its_slot_moves_reaches_the_callers() {
    let cluster = Cluster::start();
    let key = cluster.key_on(0);
    let mut here = Scene::at(&cluster.masters[0], First::Client);
    here.say(&format!("RLOCK.ONCE {key} ann 600000"));
    let mut waiters = ["bob", "cid"].map(|name| here.wait(&format!("RLOCK.ONCE {key} {name} 600000 WAIT 0")));
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    assert_eq!(slot.source.say(&format!("RLOCK.ANSWER {key} ann 42 KEEP 600000")), Reply::Int(1));
    assert_eq!(waiters[0].outcome(), Outcome::Answered(Some("42".to_owned())));
    assert_eq!(waiters[1].outcome(), Outcome::Answered(None), "a ticket's process then asks as a newcomer does");
    // The lock is free, so the server redirects callers to the target, which does not have the answer yet.
    let once = format!("RLOCK.ONCE {key} dan 600000");
    assert!(slot.source.say(&once).as_error().starts_with("ASK"));
    for more in ["", " WAIT 0"] {
        slot.target.say("ASKING");
        let refused = slot.target.say(&format!("{once}{more}"));
        assert!(refused.as_error().starts_with("TRYAGAIN the slot of this lock is moving"), "{refused:?}");
    }
    slot.move_keys();
    slot.target.say("ASKING");
    assert_eq!(slot.target.say(&once), text("42"));
    slot.finish();
    assert_eq!(slot.target.say(&once), text("42"));
}

/// The check is only for a new lead, and for a request that waits for a lead.
#[test]
fn a_leader_goes_on_while_its_slot_moves() {
    let cluster = Cluster::start();
    let key = cluster.key_on(0);
    let once = format!("RLOCK.ONCE {key} ann 600000");
    let mut slot = cluster.begin_to_move(&key, 0, 1);
    slot.target.say("ASKING");
    let refused = slot.target.say(&once);
    assert!(refused.as_error().starts_with("TRYAGAIN the slot of this lock is moving"), "{refused:?}");
    slot.target.say("ASKING");
    assert_eq!(slot.target.say(&format!("RLOCK.ACQUIRE {key} ann 600000")), Reply::Nil);
    slot.target.say("ASKING");
    let refused = slot.target.say(&format!("RLOCK.ONCE {key} bob 600000 WAIT 600000"));
    assert!(refused.as_error().starts_with("TRYAGAIN the slot of this lock is moving"), "it could lead: {refused:?}");
    slot.target.say("ASKING");
    assert_eq!(slot.target.say(&once), Reply::Nil);
    slot.target.say("ASKING");
    assert_eq!(slot.target.say(&format!("RLOCK.ANSWER {key} ann 42 KEEP 600000")), Reply::Int(1));
    slot.move_keys();
    slot.finish();
    assert_eq!(slot.target.say(&once), text("42"));
}
