//! Histories that were found, or thought of, and each have a name.

use super::host::PAUSED_MS;
use super::play::{Asking, Play};
use super::{Step, play};
use rlock_core::lock::Side;

/// Ann has the lock, bob and cid wait; ann gives it to bob, whose client is gone before it can be told.
fn bob_dies_before_being_told(paused: bool) {
    let mut play = Play::new();
    for (holder, wait) in [("ann:1", None), ("bob:1", Some(0)), ("cid:1", Some(0))] {
        play.begin_turn();
        play.ask(&Asking { lock: 0, holder, side: Side::Plain, lease: 100_000, wait }, None);
    }
    play.begin_turn();
    play.release(0, "ann:1", None, false);
    assert!(play.world.is_inside(0, "bob:1"));
    play.world.paused.set(paused);
    play.next_one_dies = true;
    play.hear();
    play.catch_up();
    if paused {
        play.advance(10 * PAUSED_MS);
        assert!(play.world.is_inside(0, "bob:1"), "nothing is written during a pause");
        play.world.paused.set(false);
        play.advance(PAUSED_MS + 1);
    }
    assert!(
        !play.world.is_inside(0, "bob:1") && play.world.is_inside(0, "cid:1"),
        "the lock goes on to the next: {:?}",
        play.world.fields(0)
    );
    play.hear();
    play.end();
}

#[test]
fn a_grant_to_a_client_that_is_gone_goes_on_to_the_next() {
    bob_dies_before_being_told(false);
}

#[test]
fn a_grant_to_a_client_that_is_gone_is_taken_back_after_a_pause() {
    bob_dies_before_being_told(true);
}

fn ask(holder: usize, side: Side, wait: Option<i64>) -> Step {
    Step::Ask { lock: 0, holder, side, lease: 1, wait }
}

/// The last who waited is let go by the very command that comes to wait, and this is all that its turn allows.
#[test]
fn behind_the_last_one_who_is_let_go_nobody_sleeps() {
    play(&[
        ask(0, Side::Plain, None),
        ask(1, Side::Plain, Some(0)),
        Step::Turn(1),
        Step::Busy(true),
        Step::BecomeReplica,
        Step::Advance { ms: 10 },
        ask(2, Side::Plain, Some(0)),
        Step::Busy(false),
    ]);
}

/// Dan, who waits three times, is let in to read. Before his others are looked at his lease ends, and bob is next.
#[test]
fn a_namesake_of_one_who_has_left_overtakes_nobody() {
    play(&[
        ask(0, Side::Write, None),
        ask(3, Side::Read, Some(0)),
        ask(1, Side::Read, Some(0)),
        ask(3, Side::Write, Some(0)),
        ask(3, Side::Write, Some(0)),
        Step::Turn(1),
        Step::Busy(true),
        Step::Release { lock: 0, holder: 0, side: None, all: false },
        Step::Advance { ms: 10 },
        Step::Busy(false),
    ]);
}
