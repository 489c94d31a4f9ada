//! RLOCK.ONCE and RLOCK.ANSWER: one caller does the work, and every caller gets its answer.

mod answers;
mod callers_that_go;
mod cluster;
mod followers;
mod in_slices;
mod refusals;

use crate::waiting::scene::{Outcome, Scene, Waiter};
use rlock_testing::text;

const KEPT: &str = "RLOCK.ANSWER k ann 42 KEEP 600000";

/// The same as `gets_of`, for the lock `k`.
#[track_caller]
fn gets(scene: &mut Scene, waiter: &mut Waiter, value: &str) {
    gets_of(scene, "k", waiter, value);
}

/// A blocked client has the value; the process of a ticket asks for it.
#[track_caller]
fn gets_of(scene: &mut Scene, key: &str, waiter: &mut Waiter, value: &str) {
    match waiter.outcome() {
        Outcome::Answered(Some(answer)) => assert_eq!(answer, value),
        Outcome::Answered(None) => assert_eq!(scene.say(&format!("RLOCK.ONCE {key} again 600000")), text(value)),
        other => panic!("no answer: {other:?}"),
    }
}
