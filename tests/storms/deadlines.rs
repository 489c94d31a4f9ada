//! Waits that end almost at the same time.

use crate::alone;
use crate::one_lock::{BATCH, LATE_MS, LEASE_MS, LONGEST_SILENCE, held_by};
use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use rlock_testing::Reply;

/// How long it takes until all clients wait. On a busy machine it may take longer: late requests then wait for the
/// minimum of 1 ms, which spreads their deadlines.
const ASKING_MS: i64 = 3_000;

/// How many clients ask before the clock is read again. Their waits are computed from the last reading.
const ASK_AT_ONCE: usize = 100;

#[test]
fn waits_for_one_lock() {
    let _alone = alone();
    let mut scene = held_by("RLOCK.ACQUIRE");
    time_is_up(&mut scene, "waits for one lock end", |_| "gate".to_owned());
}

#[test]
fn waits_for_different_locks() {
    let _alone = alone();
    let mut scene = Scene::with(BATCH, AS_IT_COMES);
    let taken = (0..scene.size()).map(|number| format!("RLOCK.ACQUIRE gate:{number} holder {LEASE_MS}"));
    assert!(scene.client.say_all(taken).iter().all(|reply| *reply == Reply::Nil));
    time_is_up(&mut scene, "waits for different locks end", |number| format!("gate:{number}"));
}

fn time_is_up(scene: &mut Scene, name: &str, key: impl Fn(usize) -> String) {
    let mut now = scene.client.time_ms();
    let time_is_up = now + ASKING_MS;
    // The server counts a wait from when it reads the request, so a wait may be due later by the time that this takes.
    let mut moment_ms = 0;
    for first in (0..scene.size()).step_by(ASK_AT_ONCE) {
        let wait = (time_is_up - now).max(1);
        for number in first..scene.size().min(first + ASK_AT_ONCE) {
            let key = key(number);
            scene.batch.say(number, &format!("RLOCK.ACQUIRE {key} waiter:{number} {LEASE_MS} WAIT {wait}"));
        }
        now = scene.client.time_ms();
        moment_ms = moment_ms.max(now + wait - time_is_up);
    }
    let storm = scene.storm(name);
    let seen = storm.pass(scene);
    let ends = scene.client.say_all((0..scene.size()).map(|number| format!("PEXPIRETIME {}", key(number))));
    // The remaining lease in a reply shows when the server made the reply.
    let received: Vec<_> = scene
        .answers()
        .zip(&ends)
        .map(|(answer, end)| end.as_int() - answer.reply.as_ref().unwrap().as_int())
        .collect();
    let (soonest, slowest) = (received.iter().min().unwrap() - time_is_up, received.iter().max().unwrap() - time_is_up);
    let late = seen.lateness(time_is_up, moment_ms + LATE_MS, time_is_up + slowest);
    let figures = format!("all within {moment_ms} ms, the last answered {slowest} ms after the first was due, ");
    seen.report(LONGEST_SILENCE, &figures);
    assert!(soonest >= 0, "{name}: a wait ended {} ms too early", -soonest);
    assert!(late <= 0, "{name}: a wait ended {late} ms later than it may");
}
