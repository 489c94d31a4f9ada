//! Waits that end early and without the lock, all at once.

use crate::one_lock::{BATCH, LEASE_MS, LONGEST_SILENCE, held_by};
use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use crate::{alone, is_ok};
use rlock_testing::{Batch, Reply, free_port};

/// A replica grants no locks. Waiters get an error; some servers disconnect them instead.
#[test]
fn a_demotion_sends_all_waiters_away() {
    let _alone = alone();
    let mut scene = held_by("RLOCK.ACQUIRE");
    // Half of the clients can be redirected, which some servers leave to the module. Other servers do not know CAPA.
    let redirected = (0..scene.size()).filter(|number| number % 2 == 0);
    let count = redirected.map(|number| scene.batch.say(number, "CLIENT CAPA redirect")).count();
    assert_eq!(scene.batch.collect(count), count);
    wait_for_the_gate(&mut scene);
    let storm = scene.storm("a demotion");
    // No server listens there.
    let master = free_port();
    assert!(is_ok(&scene.client.say(&format!("REPLICAOF 127.0.0.1 {master}"))));
    scene.client.until_waiting(0);
    storm.pass(&mut scene).report(LONGEST_SILENCE, "");
    for answer in scene.answers() {
        if let Some(reply) = &answer.reply {
            assert!(reply.as_error().starts_with("UNBLOCKED"), "{reply:?}");
        }
    }
}

#[test]
fn a_batch_that_hangs_up() {
    let _alone = alone();
    let mut scene = held_by("RLOCK.ACQUIRE");
    wait_for_the_gate(&mut scene);
    hang_up(&mut scene, "a batch hangs up at one lock");
    assert_eq!(scene.client.say("RLOCK.RELEASE gate holder"), Reply::Int(1));
    assert_eq!(scene.client.keys(), [""; 0], "no waiter is there to be granted it");
}

#[test]
fn a_batch_that_hangs_up_at_many_locks() {
    let _alone = alone();
    let mut scene = Scene::with(BATCH, AS_IT_COMES);
    let taken = (0..scene.size()).map(|number| format!("RLOCK.ACQUIRE gate:{number} holder {LEASE_MS}"));
    assert!(scene.client.say_all(taken).iter().all(|reply| *reply == Reply::Nil));
    scene.wait(|number| format!("RLOCK.ACQUIRE gate:{number} waiter {LEASE_MS} WAIT 0"));
    hang_up(&mut scene, "a batch hangs up at as many locks");
}

/// Each request takes the place of the one before, which is answered at once; the last one waits.
#[test]
fn one_holder_that_asks_thousands_of_times() {
    let _alone = alone();
    let mut scene = held_by("RLOCK.ACQUIRE");
    let storm = scene.storm("one holder asks again and again");
    for number in 0..scene.size() {
        scene.batch.say(number, &format!("RLOCK.ACQUIRE gate same {LEASE_MS} WAIT 0"));
    }
    let earlier = scene.size() - 1;
    assert_eq!(scene.batch.collect(earlier), earlier, "all but the last are answered");
    assert_eq!(scene.client.figure("waiters"), 1);
    assert_eq!(scene.client.say("RLOCK.RELEASE gate holder"), Reply::Int(1));
    storm.pass(&mut scene).report(LONGEST_SILENCE, "");
    let replies: Vec<_> = scene.answers().map(|answer| answer.reply.as_ref().unwrap()).collect();
    let replaced = Reply::Error("UNBLOCKED another request of this holder took its place".to_owned());
    assert_eq!(replies.iter().filter(|reply| **reply == &replaced).count(), earlier);
    assert_eq!(replies.iter().filter(|reply| **reply == &Reply::Nil).count(), 1);
    assert_eq!(scene.client.hash("gate"), [("same".to_owned(), "1".to_owned())]);
}

fn wait_for_the_gate(scene: &mut Scene) {
    scene.wait(|number| format!("RLOCK.ACQUIRE gate waiter:{number} {LEASE_MS} WAIT 0"));
}

fn hang_up(scene: &mut Scene, name: &str) {
    let storm = scene.storm(name);
    drop(std::mem::replace(&mut scene.batch, Batch::connect(&scene.server, 0)));
    scene.client.until_waiting(0);
    storm.calm(scene).report(LONGEST_SILENCE, "");
}
