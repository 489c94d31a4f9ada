//! Histories that were found or thought of. Each has a name.

use super::play::{Asking, Play};
use super::world::{Look, PAUSED_MS, Who};
use super::{Ack, EventsAsked, Step, play};
use crate::permit;
use rlock_core::lock::{Outcome, Side};

/// Ann has the lock, bob and cid wait; ann's release grants it to bob, but his client is gone before its reply is sent.
fn bob_dies_before_his_reply(paused: bool) {
    let mut play = Play::new();
    for (holder, wait) in [("ann:1", None), ("bob:1", Some(0)), ("cid:1", Some(0))] {
        play.begin_turn();
        play.ask(&Asking { lock: 0, holder, side: Side::Plain, lease: 100_000, wait, max: None }, None);
    }
    play.begin_turn();
    play.release(0, "ann:1", None, false);
    assert!(play.world.is_inside(0, "bob:1"));
    play.world.pause(paused);
    play.next_one_dies = true;
    play.hear();
    play.catch_up();
    if paused {
        play.advance(10 * PAUSED_MS);
        assert!(play.world.is_inside(0, "bob:1"), "nothing is written during a pause");
        play.world.pause(false);
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
    bob_dies_before_his_reply(false);
}

#[test]
fn a_grant_to_a_client_that_is_gone_is_taken_back_after_a_pause() {
    bob_dies_before_his_reply(true);
}

fn ask(holder: usize, side: Side, wait: Option<i64>) -> Step {
    Step::Ask { lock: 0, holder, side, lease: 1, wait, max: None }
}

#[test]
fn a_turn_with_nothing_to_do_is_over_at_once() {
    let mut play = Play::new();
    play.begin_turn();
    let before = play.world.turn_left();
    play.engine.catch_up(&play.world);
    assert_eq!(play.world.turn_left(), before);
}

/// With a bound, and a waiter by ticket: a refused request leaves nothing behind, and present waiters stay.
#[test]
fn no_request_waits_behind_more_than_its_bound() {
    let mut play = Play::new();
    let ask = |holder, wait, max| Step::Ask { lock: 0, holder, side: Side::Plain, lease: 100_000, wait, max };
    let events = EventsAsked { session: 0, connection: 0, ack: Ack::None, wait: None, ttl: None };
    let by_ticket = |holder, max| Step::AskByTicket {
        session: 0,
        lock: 0,
        holder,
        side: Side::Plain,
        lease: 25_000,
        wait: 0,
        max: Some(max),
    };
    for (step, waiting, turned_away) in [
        (Step::Events(events), 0, 0),
        (ask(0, None, None), 0, 0),
        (ask(1, Some(0), Some(1)), 1, 0),
        (ask(2, Some(0), Some(1)), 1, 1),
        (by_ticket(2, 1), 1, 2),
        (by_ticket(2, 2), 2, 2),
        (Step::AskAgain { session: 0, ticket: 1, other: false }, 2, 2),
        (by_ticket(3, 2), 2, 3),
        (ask(0, Some(0), Some(1)), 2, 3),
        (Step::Release { lock: 0, holder: 0, side: None, all: true }, 1, 3),
        (ask(3, Some(0), Some(2)), 2, 3),
    ] {
        play.take(&step);
        play.check();
        assert_eq!((play.waiting().len(), play.engine.counters.turned_away), (waiting, turned_away), "{step:?}");
    }
    play.end();
}

/// The last waiter is dismissed by the very command that comes to wait, and its turn allows no more.
#[test]
fn no_waiter_sleeps_behind_the_last_dismissed_one() {
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

/// Bob waits before cid, and asks again: from another connection, and by tickets.
#[test]
fn a_later_request_of_a_holder_takes_the_place_of_the_earlier_one() {
    let ask = |holder, wait| Step::Ask { lock: 0, holder, side: Side::Plain, lease: 100_000, wait, max: Some(2) };
    let by_ticket = |holder, max| Step::AskByTicket {
        session: 0,
        lock: 0,
        holder,
        side: Side::Plain,
        lease: 25_000,
        wait: 0,
        max: Some(max),
    };
    let events = EventsAsked { session: 0, connection: 0, ack: Ack::All, wait: None, ttl: None };
    let mut play = Play::new();
    for step in [Step::Events(events.clone()), ask(0, None), ask(1, Some(0)), ask(2, Some(0))] {
        play.take(&step);
    }
    for (step, first) in [(ask(1, Some(0)), "client"), (by_ticket(1, 1), "one-0"), (by_ticket(1, 1), "one-1")] {
        play.take(&step);
        play.check();
        let waiting = play.waiting();
        let holders: Vec<_> = waiting.iter().map(|waiting| waiting.holder).collect();
        assert_eq!(holders, ["bob:1", "cid:1"], "{step:?}");
        let is_it = match &waiting[0].who {
            Who::Client(_) => first == "client",
            Who::Ticket { ticket, .. } => ticket == first,
        };
        assert!(is_it, "{step:?}: {:?}", waiting[0]);
    }
    let replaced = play.let_go.values().filter(|outcome| **outcome == Some(Outcome::Replaced)).count();
    assert_eq!(replaced, 2, "both clients were told");
    play.take(&Step::Events(events));
    assert_eq!(play.told.iter().map(|told| (&*told.2, told.3)).collect::<Vec<_>>(), [("one-0", Outcome::Replaced)]);
    play.take(&Step::Release { lock: 0, holder: 0, side: None, all: true });
    assert_eq!(play.world.fields(0)["bob:1"], "1");
    play.end();
}

/// A second failover comes within a grace. When the grace is over, a holder that waits for its own lock is granted it, and not
/// only after the waiters that wait for this very holder.
#[test]
fn a_grace_that_restarts_forgets_no_waiter() {
    let events = EventsAsked { session: 0, connection: 0, ack: Ack::None, wait: None, ttl: None };
    let by_ticket =
        Step::AskByTicket { session: 0, lock: 0, holder: 2, side: Side::Read, lease: 1, wait: 0, max: None };
    play(&[
        Step::Events(events),
        ask(2, Side::Read, None),
        ask(0, Side::Read, None),
        Step::SetGrace(200),
        ask(1, Side::Write, Some(0)),
        Step::BecomeMaster,
        by_ticket,
        Step::BecomeMaster,
        Step::SetGrace(0),
    ]);
}

/// Cid acquires a permit for 21 ms. Ann's check of the lock comes between that and cid's next request, which restarts the
/// lease with 1 ms. Bob's permit keeps the key until much later.
#[test]
fn a_permit_with_a_shortened_lease_is_noticed() {
    let ask = |holder, limit, lease, wait| Step::Ask { lock: 0, holder, side: permit(limit), lease, wait, max: None };
    let [ann, bob, cid, dan] = [0, 1, 2, 3];
    play(&[
        Step::Turn(1),
        ask(dan, 1, 1, None),
        ask(bob, 1, 1, Some(0)),
        ask(cid, 2, 1, Some(0)),
        ask(cid, 1, 21, Some(0)),
        ask(bob, 1, 100, Some(0)),
        ask(ann, 2, 1, Some(0)),
        ask(cid, 1, 1, Some(0)),
        Step::Break { lock: 0 },
        Step::Advance { ms: 10 },
    ]);
}
