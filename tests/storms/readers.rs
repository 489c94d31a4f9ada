//! Thousands of readers that are granted together.

use crate::one_lock::{LATE_MS, LEASE_MS, LONGEST_SILENCE, held_by};
use crate::scene::{Scene, Seen};
use crate::{alone, as_i64};
use rlock_testing::{Client, Reply};

/// The queue's order holds for each of them, and for requests during the grants: a writer is behind them all, and a
/// reader that does not wait is refused, since a writer waits.
#[test]
fn readers_behind_a_writer_in_their_order() {
    let _alone = alone();
    let mut scene = waited_for_by_readers();
    let readers = in_the_queue(&mut scene);
    let (mut writer, mut late) = (scene.server.client(), scene.server.client());
    let (storm, before) = (scene.storm("a writer leaves readers"), scene.client.time_ms());
    // Sent together, so that the writer asks before all readers are granted, if that takes more than a moment.
    writer.send_together(&[
        &["RLOCK.RELEASE", "gate", "holder"][..],
        &["RLOCK.WACQUIRE", "gate", "writer", "600000", "WAIT", "0"],
    ]);
    scene.other_waiters = 1;
    let refused = late.say("RLOCK.RACQUIRE gate late 600000");
    assert_eq!(writer.receive(), Reply::Int(1));
    let seen = storm.pass(&mut scene);
    scene.assert_all_are_granted();
    assert_in_order_and_time(&mut scene.client, &readers, before, seen);
    assert!((1..=LEASE_MS).contains(&refused.as_int()), "a writer has it or waits for it: {refused:?}");
    assert_eq!(scene.client.figure("waiters"), 1, "the writer waits behind the readers");
    assert!(scene.client.say("RLOCK.RACQUIRE gate late 600000").as_int() > 0);

    let released = scene.client.say_all(readers.iter().map(|reader| format!("RLOCK.RELEASE gate {reader}")));
    let (last, others) = released.split_last().unwrap();
    assert!(others.iter().all(|reply| *reply == Reply::Int(0)), "each reader had one hold");
    assert_eq!((last, writer.receive()), (&Reply::Int(1), Reply::Nil));
}

#[test]
fn readers_of_a_lock_that_is_broken() {
    let _alone = alone();
    let mut scene = waited_for_by_readers();
    let readers = in_the_queue(&mut scene);
    let (storm, before) = (scene.storm("RLOCK.BREAK lets readers in"), scene.client.time_ms());
    assert_eq!(scene.client.say("RLOCK.BREAK gate"), Reply::Int(1));
    let seen = storm.pass(&mut scene);
    scene.assert_all_are_granted();
    assert_in_order_and_time(&mut scene.client, &readers, before, seen);
}

fn waited_for_by_readers() -> Scene {
    let mut scene = held_by("RLOCK.WACQUIRE");
    scene.wait(|number| format!("RLOCK.RACQUIRE gate reader:{number} {LEASE_MS} WAIT 0"));
    scene
}

/// The holders that wait, in the queue's order. They asked in another order, as each has a connection of its own.
fn in_the_queue(scene: &mut Scene) -> Vec<String> {
    let inspected = scene.client.say("RLOCK.INSPECT gate COUNT 10000");
    let words = inspected.words();
    let waiters = words.into_iter().filter(|word| word.starts_with("reader:"));
    let waiters: Vec<_> = waiters.map(str::to_owned).collect();
    assert_eq!(waiters.len(), scene.size());
    waiters
}

/// All readers hold the lock, they got it in the queue's order, and the last one not long after the lock was free.
fn assert_in_order_and_time(client: &mut Client, readers: &[String], freed: i64, seen: Seen) {
    assert_eq!(client.say("HLEN gate"), Reply::Int(as_i64(readers.len() + 1)), "all are in, beside the mode");
    let holds = readers.iter().map(|reader| format!("PEXPIRETIME {{gate}}:{reader}:rwlock_timeout:1"));
    let granted: Vec<_> = client.say_all(holds).iter().map(|end| end.as_int() - LEASE_MS).collect();
    let last = *granted.last().unwrap();
    let late = seen.lateness(freed, LATE_MS, last);
    seen.report(LONGEST_SILENCE, &format!("the last is in after {} ms, ", last - freed));
    assert!(granted[0] >= freed, "each has a hold of its own");
    assert!(granted.is_sorted(), "they are granted in the queue's order");
    assert!(late <= 0, "the last is granted {late} ms later than it may be");
}
