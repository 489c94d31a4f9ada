//! Thousands who wait under one holder's name: once it has the lock, all of them are inside.

use crate::one_lock::{LEASE_MS, LONGEST_SILENCE, held_by};
use crate::{alone, as_i64};
use rlock_testing::Reply;

#[test]
fn one_holder_that_waits_thousands_of_times() {
    let _alone = alone();
    let mut scene = held_by("RLOCK.ACQUIRE");
    scene.wait(|_| format!("RLOCK.ACQUIRE gate same {LEASE_MS} WAIT 0"));
    let storm = scene.storm("one holder's many waits");
    assert_eq!(scene.client.say("RLOCK.RELEASE gate holder"), Reply::Int(1));
    storm.pass(&mut scene).report(LONGEST_SILENCE, "");
    scene.assert_all_are_granted();
    assert_eq!(scene.client.hash("gate"), [("same".to_owned(), as_i64(scene.size()).to_string())]);
}
