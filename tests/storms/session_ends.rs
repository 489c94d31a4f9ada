//! What ends at one stroke: sessions with very many tickets, and the leases that tickets wait for.

use crate::one_lock::LEASE_MS;
use crate::scene::{Freed, Scene};
use crate::setting::AS_IT_COMES;
use crate::tickets::{LONGEST_SILENCE, Process, TICKETS, held_by_holder};
use crate::{alone, as_i64, size};
use rlock_testing::Reply;
use std::time::Instant;

/// How much later than its lease's end a grant may come, for each ten thousand leases that end with it: see
/// `lease_ends.rs`.
const LATE_MS: i64 = 250;

/// All leases end within this many ms.
const MOMENT_MS: i64 = 10;

/// How many events a session may leave unread and still be served.
const UNREAD_MAX: usize = 1_000;

#[test]
fn a_session_with_all_tickets_is_closed() {
    let _alone = alone();
    for of_one_lock in [true, false] {
        let (mut scene, mut process, count) = waiting(of_one_lock);
        let storm = scene.storm_of(&format!("{count} tickets"), "a session is closed");
        let before = scene.client.time_ms();
        let cancel = format!("RLOCK.CANCEL {}", process.session(0));
        assert_eq!(process.client.say(&cancel), Reply::Int(as_i64(count)));
        assert_eq!(scene.client.figure("sessions"), 0, "it is gone at once");
        // Its name is free, and the next session of that name inherits nothing.
        let name = process.session(0).to_owned();
        assert_eq!(process.client.say(&format!("RLOCK.EVENTS {name}")).events(), []);
        assert_eq!(process.client.say(&format!("RLOCK.CANCEL {name}")), Reply::Int(0));
        scene.client.until_waiting(0);
        let ms = scene.client.time_ms() - before;
        storm.calm(&mut scene).report(LONGEST_SILENCE, &format!("all have left after {ms} ms, "));
        nothing_is_left(&mut scene, count);
    }
}

/// One command names each ticket. Its reply comes when nothing of them is left; other clients are answered meanwhile.
#[test]
fn all_tickets_of_a_session_are_taken_back() {
    let _alone = alone();
    let (mut scene, mut process, count) = waiting(true);
    let names: Vec<_> = (0..count).map(|number| number.to_string()).collect();
    let cancel = format!("RLOCK.CANCEL {} {}", process.session(0), names.join(" "));
    let storm = scene.storm_of(&format!("{count} tickets"), "a session takes them back");
    let begun = Instant::now();
    assert_eq!(process.client.say(&cancel), Reply::List(vec![Reply::Int(1); count]));
    let took = begun.elapsed();
    assert_eq!(scene.client.figures(["waiters", "tickets"]), [0; 2]);
    storm.calm(&mut scene).report(took / 3, &format!("all are taken back after {} ms, ", took.as_millis()));
    let end = format!("RLOCK.CANCEL {}", process.session(0));
    assert_eq!(process.client.say(&end), Reply::Int(0));
    nothing_is_left(&mut scene, count);
}

#[test]
fn a_session_with_all_tickets_ends_by_itself() {
    let _alone = alone();
    let (mut scene, mut process, count) = waiting(true);
    let name = process.session(0).to_owned();
    assert_eq!(process.client.say(&format!("RLOCK.EVENTS {name} TTL 1000")).events(), []);
    let storm = scene.storm_of(&format!("{count} tickets"), "a session's time is over");
    scene.client.until_waiting(0);
    storm.calm(&mut scene).report(LONGEST_SILENCE, "");
    nothing_is_left(&mut scene, count);
}

fn waiting(of_one_lock: bool) -> (Scene, Process, usize) {
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(TICKETS));
    let mut process = Process::with_sessions(1, &scene);
    let key = |number: usize| if of_one_lock { "gate".to_owned() } else { format!("gate:{number}") };
    held_by_holder(&mut scene, (0..if of_one_lock { 1 } else { count }).map(key));
    process.wait(count, |number| format!("RLOCK.ACQUIRE {} waiter:{number} {LEASE_MS}", key(number)));
    (scene, process, count)
}

fn nothing_is_left(scene: &mut Scene, count: usize) {
    let left = ["sessions", "tickets", "events_unacknowledged", "waiters", "locks_with_waiters"];
    assert_eq!(scene.client.figures(left), [0; 5]);
    assert_eq!(scene.client.figure("cancelled"), as_i64(count));
}

/// A ticket waits for each of as many locks, and their leases end within a moment. The test measures when each grant was
/// made, by the server's clock, not when its session read the event.
#[test]
fn leases_that_tickets_wait_for() {
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(TICKETS));
    let mut process = Process::with_sessions(count / UNREAD_MAX, &scene);
    held_by_holder(&mut scene, (0..count).map(|number| format!("gate:{number}")));
    process.wait(count, |number| format!("RLOCK.ACQUIRE gate:{number} waiter {LEASE_MS}"));
    let storm = scene.storm_of(&format!("{count} tickets"), "leases end");
    // Long enough to set all of them.
    let base = scene.client.time_ms() + 3_000;
    let ends: Vec<_> = (0..).map(|number| base + number % MOMENT_MS).take(count).collect();
    let commands = ends.iter().enumerate().map(|(number, end)| format!("PEXPIREAT gate:{number} {end}"));
    let set = scene.client.say_all(commands.collect::<Vec<_>>());
    assert!(set.iter().all(|reply| *reply == Reply::Int(1)));
    // On a busy machine, this is after the end of the first leases.
    let all_are_set = scene.client.time_ms();
    scene.client.until_waiting(0);
    let seen = storm.calm(&mut scene);
    let granted = scene.client.say_all((0..count).map(|number| format!("PEXPIRETIME gate:{number}")));
    let granted: Vec<_> = granted.iter().map(|end| end.as_int() - LEASE_MS).collect();
    let freed: Vec<_> = ends.into_iter().map(|at| Freed { at, counted_from: at.max(all_are_set) }).collect();
    seen.report_grants(LONGEST_SILENCE, LATE_MS * as_i64(TICKETS) / 10_000, &freed, &granted);
    assert_eq!(process.until_granted(count).len(), count);
}
