//! Histories of sessions that were found, or thought of, and each have a name.

use super::play::Play;
use super::{Ack, EventsAsked, Step};
use rlock_core::lock::{Outcome, Side};
use rlock_core::waiting::EVENTS_UNREAD_MAX;

const ANN: usize = 0;
const BOB: usize = 1;
const CID: usize = 2;
const DAN: usize = 3;
const LONG: i64 = 100_000;

fn ask(holder: usize, side: Side, wait: Option<i64>) -> Step {
    Step::Ask { lock: 0, holder, side, lease: LONG, wait, max: None }
}

fn ask_by_ticket(session: usize, holder: usize, side: Side) -> Step {
    Step::AskByTicket { session, lock: 0, holder, side, lease: LONG, wait: 0, max: None }
}

fn release(holder: usize) -> Step {
    Step::Release { lock: 0, holder, side: None, all: true }
}

/// A call that waits, on the session's own connection.
fn calls(session: usize) -> Step {
    events(session, Ack::All, Some(0))
}

fn events(session: usize, ack: Ack, wait: Option<i64>) -> Step {
    Step::Events(EventsAsked { session, connection: session, ack, wait, ttl: Some(3_000) })
}

impl Play {
    fn on(mut self, history: &[Step]) -> Self {
        for step in history {
            self.take(step);
            self.check();
        }
        self
    }

    fn inside(&self) -> Vec<String> {
        self.world.fields(0).into_keys().filter(|field| field != "mode").collect()
    }
}

/// Ann has the lock, and bob waits for it in a session. Behind bob waits cid, a client. Then ann releases.
fn bob_is_granted(side: Side) -> Play {
    let side_of_bob = ask_by_ticket(0, BOB, side);
    let history = [calls(0), ask(ANN, side, None), side_of_bob, ask(CID, side, Some(0)), release(ANN)];
    let play = Play::new().on(&history);
    assert_eq!(play.told.len(), 1, "bob's session is told");
    play
}

#[test]
fn what_was_told_on_a_connection_that_dies_is_told_again_on_the_next() {
    let play = bob_is_granted(Side::Plain).on(&[
        Step::Disconnect { connection: 0 },
        events(0, Ack::None, Some(0)),
        Step::Disconnect { connection: 0 },
        events(0, Ack::All, None),
    ]);
    let granted = |connection| (connection, 1, "one-0".to_owned(), Outcome::Granted { token: None });
    assert_eq!(play.told, [granted(1), granted(5)], "and no more once it is acknowledged");
    play.end();
}

#[test]
fn an_answer_that_is_not_written_is_told_on_the_next_connection() {
    let before = [calls(0), ask(ANN, Side::Plain, None), ask_by_ticket(0, BOB, Side::Plain), Step::NextAnswerIsLost];
    let play = Play::new().on(&before).on(&[release(ANN)]);
    assert_eq!(play.told, []);
    let play = play.on(&[calls(0)]);
    assert_eq!(play.told, [(5, 1, "one-0".to_owned(), Outcome::Granted { token: None })]);
    play.end();
}

/// The same, but no call waits, so the grant is in no reply.
fn bob_is_granted_untold(side: Side) -> Play {
    let side_of_bob = ask_by_ticket(0, BOB, side);
    let before = [events(0, Ack::None, None), ask(ANN, side, None), side_of_bob, ask(CID, side, Some(0)), release(ANN)];
    let play = Play::new().on(&before);
    assert!(play.told.is_empty() && play.world.is_inside(0, "bob:1"));
    play
}

#[test]
fn the_end_of_a_session_revokes_what_was_in_no_reply_and_hands_it_on() {
    let end = [Step::Disconnect { connection: 0 }, Step::Advance { ms: 2_999 }];
    let play = bob_is_granted_untold(Side::Plain).on(&end);
    assert_eq!(play.inside(), ["bob:1"], "not before the TTL is over");
    let play = play.on(&[Step::Advance { ms: 1 }]);
    assert_eq!(play.inside(), ["cid:1"]);
    play.end();
}

#[test]
fn what_was_in_a_reply_outlives_the_session() {
    let again = [Step::Disconnect { connection: 0 }, events(0, Ack::None, None)];
    for before in [&[][..], &[events(0, Ack::All, None)], &again] {
        for end in [&[Step::End { session: 0 }][..], &[Step::Disconnect { connection: 0 }, Step::Advance { ms: 3_000 }]]
        {
            let play = bob_is_granted(Side::Plain).on(before).on(end);
            assert_eq!((play.inside(), play.sessions.len()), (vec!["bob:1".to_owned()], 0), "{before:?}, {end:?}");
            play.end();
        }
    }
    let lost = [Step::NextAnswerIsLost, events(0, Ack::None, Some(0)), Step::End { session: 0 }];
    let play = bob_is_granted_untold(Side::Plain).on(&[Step::Disconnect { connection: 0 }]).on(&lost);
    assert_eq!(play.inside(), ["bob:1"], "what is told at once is not lost");
    play.end();
}

/// Bob has renewed, or taken the lock once more, though his session was told nothing.
#[test]
fn what_was_in_no_reply_and_is_not_as_it_was_granted_outlives_the_session() {
    let renew = Step::Renew { lock: 0, holder: BOB, lease: LONG };
    for touch in [renew, ask(BOB, Side::Plain, None)] {
        let play = bob_is_granted_untold(Side::Plain).on(&[touch.clone(), Step::Turn(1), Step::End { session: 0 }]);
        assert_eq!(play.inside(), ["bob:1"], "{touch:?}");
        play.end();
    }
}

/// The event goes on saying what is left of the lease, and tells of a re-entry by another ticket, whose lease is shorter.
#[test]
fn what_is_left_of_a_lease_is_told_as_it_is_then() {
    let by_ticket =
        |lease| Step::AskByTicket { session: 0, lock: 0, holder: BOB, side: Side::Plain, lease, wait: 0, max: None };
    let play = Play::new().on(&[calls(0), ask(ANN, Side::Plain, None), by_ticket(LONG), by_ticket(10), release(ANN)]);
    assert_eq!(play.left_ms, [41, 41]);
    let later = [Step::Disconnect { connection: 0 }, Step::Advance { ms: 40 }, events(0, Ack::None, None)];
    let play = play.on(&later);
    assert_eq!(play.left_ms[2..], [1, 1]);
    play.end();
}

#[test]
fn a_grant_that_is_cancelled_goes_to_the_next() {
    for side in [Side::Plain, Side::Write] {
        let play = bob_is_granted(side).on(&[Step::Cancel { session: 0, tickets: vec![0] }]);
        let inside = if side == Side::Plain { "cid:1" } else { "cid:1:write" };
        assert_eq!(play.inside(), [inside]);
        play.end();
    }
}

/// Bob was granted the lock, and his session, which was told of it or not, waits for it by three more tickets. It takes
/// back one of those, and what bob was granted, and the others: in each turn the server comes to one.
fn all_are_being_taken_back(granted: Play) -> Play {
    let more = [DAN, DAN, DAN].map(|holder| ask_by_ticket(0, holder, Side::Plain));
    let cancels = Step::Cancel { session: 0, tickets: vec![1, 0, 2, 3] };
    let play = granted.on(&more).on(&[Step::Turn(1), Step::Busy(true), cancels]);
    assert_eq!((play.waiting().len(), play.taken_back.commands.len()), (3, 1), "cid waits, and two of the tickets");
    play
}

#[test]
fn a_cancel_that_takes_several_turns_is_answered_in_the_last_one() {
    let both = || [bob_is_granted(Side::Plain), bob_is_granted_untold(Side::Plain)].map(all_are_being_taken_back);
    for mut play in both() {
        for waiting in [3, 2, 1] {
            play = play.on(&[Step::OneTurn]);
            assert_eq!((play.inside(), play.waiting().len()), (vec!["bob:1".to_owned()], waiting));
            assert_eq!(play.taken_back.commands.len(), 1, "it has no answer");
        }
        // What was granted goes last.
        let play = play.on(&[Step::OneTurn]);
        assert_eq!((play.inside(), play.waiting().len()), (vec!["cid:1".to_owned()], 0));
        assert!(play.taken_back.commands.is_empty());
        play.end();
    }
    let ends = [Step::GiveUpCancel { cancel: 0 }, Step::Pause(true)];
    for (play, end) in both().into_iter().zip(ends) {
        let play = play.on(&[&[end.clone()][..], &[const { Step::OneTurn }; 5], &[Step::PauseEnds]].concat());
        let answers_missing = usize::from(matches!(end, Step::Pause(_)));
        assert_eq!(play.taken_back.commands.len(), answers_missing, "{end:?}");
        let play = play.on(&[Step::Busy(false), Step::Advance { ms: 20 }]);
        assert_eq!((play.inside(), play.waiting().len()), (vec!["cid:1".to_owned()], 0), "{end:?}");
        play.end();
    }
}

/// What was in a reply is then the process's own, and nothing is revoked by another server.
#[test]
fn what_a_cancel_has_not_come_to_when_its_session_ends_or_the_role_changes_is_not_revoked() {
    for ends in [Step::End { session: 0 }, Step::BecomeReplica] {
        let play = all_are_being_taken_back(bob_is_granted(Side::Plain)).on(&[ends.clone(), Step::Busy(false)]);
        assert_eq!((play.inside(), play.taken_back.commands.len()), (vec!["bob:1".to_owned()], 0), "{ends:?}");
        play.end();
    }
}

#[test]
fn two_tickets_of_one_holder_are_revoked_together() {
    for side in [Side::Plain, Side::Read, Side::Write] {
        let history = [events(0, Ack::None, None), ask(ANN, if side == Side::Read { Side::Write } else { side }, None)];
        let play = Play::new().on(&history).on(&[
            ask_by_ticket(0, BOB, side),
            ask_by_ticket(0, BOB, side),
            ask(CID, if side == Side::Read { Side::Write } else { side }, Some(0)),
            release(ANN),
        ]);
        assert!(play.world.is_inside(0, "bob:1") && play.told.is_empty(), "{side:?}: {:?}", play.told);
        let play = play.on(&[Step::End { session: 0 }]);
        assert!(!play.world.is_inside(0, "bob:1") && play.world.is_inside(0, "cid:1"), "{side:?}");
        play.end();
    }
}

/// Dan's and bob's tickets wait, and nobody attends their session, when bob comes in another way.
fn bob_is_in_and_his_session_comes_back(bob_comes: &[Step]) {
    let history = [
        calls(0),
        ask(ANN, Side::Plain, None),
        ask_by_ticket(0, DAN, Side::Plain),
        ask_by_ticket(0, BOB, Side::Plain),
        Step::Disconnect { connection: 0 },
    ];
    let play = Play::new().on(&history).on(bob_comes);
    assert_eq!((play.inside(), play.world.fields(0)["bob:1"].as_str()), (vec!["bob:1".to_owned()], "1"));
    let told_before = play.told.len();
    let play = play.on(&[calls(0)]);
    assert_eq!(play.world.fields(0)["bob:1"], "2");
    assert_eq!(play.told[told_before..].iter().map(|told| told.2.as_str()).collect::<Vec<_>>(), ["one-1"]);
    play.end();
}

#[test]
fn a_namesake_of_a_waiter_is_let_in_when_its_session_is_back() {
    bob_is_in_and_his_session_comes_back(&[ask(BOB, Side::Plain, Some(0)), release(ANN)]);
    bob_is_in_and_his_session_comes_back(&[calls(1), ask_by_ticket(1, BOB, Side::Plain), release(ANN)]);
}

#[test]
fn a_namesake_of_a_newcomer_is_let_in_when_its_session_is_back() {
    bob_is_in_and_his_session_comes_back(&[release(ANN), ask(BOB, Side::Plain, None)]);
}

/// Nobody reads what the first session is told, so its tickets are passed over.
#[test]
fn a_session_that_does_not_read_is_passed_over_until_it_does() {
    let most = EVENTS_UNREAD_MAX;
    let play = Play::new();
    play.world.most_tickets.set(most + 10);
    let mut play = play.on(&[events(0, Ack::None, None), ask(ANN, Side::Plain, None)]);
    for _ in 0..=most {
        play.take(&Step::AskByTicket {
            session: 0,
            lock: 0,
            holder: BOB,
            side: Side::Plain,
            lease: LONG,
            wait: 1,
            max: None,
        });
    }
    let play = play.on(&[
        ask_by_ticket(0, BOB, Side::Plain),
        ask(CID, Side::Plain, Some(0)),
        Step::Advance { ms: 1 },
        events(0, Ack::None, None),
    ]);
    assert_eq!(play.told.len(), most + 1, "all are told");
    let play = play.on(&[events(0, Ack::AllBut(most as u64 + 1), Some(0)), release(ANN)]);
    assert_eq!(play.inside(), ["cid:1"], "told, but not acknowledged");
    let play = play.on(&[Step::Advance { ms: 10 }, events(0, Ack::AllBut(1_000), Some(0)), release(CID)]);
    assert_eq!(play.inside(), ["bob:1"], "so many may be open");
    play.end();
}

/// Ann reads, bob waits to write in a session, and cid to read behind him. Bob's session is left, comes back for a
/// moment, and is left again.
#[test]
fn readers_are_let_in_each_time_the_writer_before_them_is_left() {
    let moment = events(0, Ack::None, None);
    let before = [moment.clone(), ask(ANN, Side::Read, None), ask_by_ticket(0, BOB, Side::Write)];
    let play = Play::new().on(&before).on(&[
        Step::Disconnect { connection: 0 },
        Step::Advance { ms: 400 },
        moment,
        ask(CID, Side::Read, Some(0)),
        Step::Advance { ms: 299 },
    ]);
    assert!(!play.world.is_inside(0, "cid:1"), "bob's session is attended");
    let play = play.on(&[Step::Advance { ms: 1 }]);
    assert!(play.world.is_inside(0, "cid:1"), "a tenth of the TTL after the call");
    play.end();
}

/// A newcomer comes past the writer whom nobody attends before the server has come to that.
#[test]
fn a_newcomer_leaves_no_reader_asleep_behind_a_writer_that_it_passes_over() {
    let play = Play::new().on(&[
        calls(0),
        ask(ANN, Side::Read, None),
        ask_by_ticket(0, BOB, Side::Write),
        ask(CID, Side::Read, Some(0)),
        Step::Busy(true),
        Step::Disconnect { connection: 0 },
        ask(DAN, Side::Read, Some(0)),
        Step::Busy(false),
    ]);
    assert!(play.world.is_inside(0, "cid:1") && play.world.is_inside(0, "dan:1"));
    play.end();
}

/// Bob's grant in the first session is never acknowledged, and the lock is lost. What he has of it in the second
/// session is another grant.
#[test]
fn a_hold_that_went_with_its_lock_is_not_taken_for_a_later_one() {
    let lost = [Step::Advance { ms: 500 }, Step::ForeignDelete { lock: 0 }, Step::Break { lock: 0 }];
    let gone = [Step::End { session: 0 }, Step::Cancel { session: 0, tickets: vec![0] }];
    for (lost, gone) in lost.iter().flat_map(|lost| gone.iter().map(move |gone| (lost, gone))) {
        let by_ticket =
            Step::AskByTicket { session: 0, lock: 0, holder: BOB, side: Side::Plain, lease: 100, wait: 0, max: None };
        let play = Play::new().on(&[calls(0), ask(ANN, Side::Plain, None), by_ticket, release(ANN), lost.clone()]);
        assert!(play.inside().is_empty(), "{lost:?}");
        let again = [
            calls(1),
            ask(ANN, Side::Plain, None),
            ask_by_ticket(1, BOB, Side::Plain),
            release(ANN),
            events(1, Ack::All, None),
            gone.clone(),
        ];
        let play = play.on(&again);
        assert_eq!(play.inside(), ["bob:1"], "{lost:?}, {gone:?}");
        play.end();
        let play = Play::new().on(&[calls(0), ask(ANN, Side::Plain, None), ask_by_ticket(0, BOB, Side::Plain)]);
        let play = play.on(&[release(ANN), Step::Break { lock: 0 }, ask(BOB, Side::Plain, None), gone.clone()]);
        assert_eq!(play.inside(), ["bob:1"], "granted at once, {gone:?}");
        play.end();
    }
}

/// Bob's session is left twice, and the second time the server has not come to all of what the first time asked for.
#[test]
fn who_is_left_once_more_is_looked_at_from_the_beginning() {
    let on = |lock, holder, side, wait| Step::Ask { lock, holder, side, lease: LONG, wait, max: None };
    let by_ticket = |lock, holder| Step::AskByTicket {
        session: 0,
        lock,
        holder,
        side: Side::Write,
        lease: LONG,
        wait: 0,
        max: None,
    };
    let waits = [
        calls(0),
        on(0, ANN, Side::Read, None),
        on(1, ANN, Side::Read, None),
        by_ticket(0, BOB),
        by_ticket(1, BOB),
        by_ticket(1, DAN),
        on(0, CID, Side::Read, Some(0)),
    ];
    let play = Play::new().on(&waits).on(&[
        Step::Busy(true),
        Step::Turn(1),
        Step::Disconnect { connection: 0 },
        Step::OneTurn,
        calls(0),
        Step::OneTurn,
        Step::Disconnect { connection: 0 },
        Step::Busy(false),
    ]);
    assert!(play.world.is_inside(0, "cid:1"));
    play.end();
}

/// Nobody attends the only ticket that waits when cid comes, and the lease is shorter than it was when that came.
#[test]
fn who_waits_behind_the_unattended_alone_is_woken_by_the_end_of_the_lease() {
    let lease = |lease| Step::Ask { lock: 0, holder: ANN, side: Side::Plain, lease, wait: None, max: None };
    let play = Play::new().on(&[
        lease(100),
        calls(0),
        ask_by_ticket(0, BOB, Side::Plain),
        Step::Disconnect { connection: 0 },
        lease(10),
        ask(CID, Side::Plain, Some(0)),
        Step::Advance { ms: 11 },
    ]);
    assert_eq!(play.inside(), ["cid:1"]);
    play.end();
}

/// Cid has the lock twice, and what nobody knows of waits to be revoked. Then cid releases one, and the other is its own.
#[test]
fn what_is_released_meanwhile_is_not_revoked_in_its_place() {
    let play = Play::new().on(&[
        events(0, Ack::None, None),
        ask(ANN, Side::Plain, None),
        ask(CID, Side::Plain, Some(0)),
        ask_by_ticket(0, CID, Side::Plain),
        release(ANN),
        Step::Pause(true),
        Step::End { session: 0 },
        Step::PauseEnds,
        Step::Release { lock: 0, holder: CID, side: None, all: false },
        Step::Advance { ms: 100 },
    ]);
    assert_eq!((play.inside(), play.world.fields(0)["cid:1"].as_str()), (vec!["cid:1".to_owned()], "1"));
    play.end();
}

/// More of its tickets were passed over than are put back at once. Cid waits behind the last of them.
#[test]
fn who_is_back_with_many_tickets_is_before_all_others_at_once() {
    let play = Play::new();
    play.world.most_tickets.set(100);
    let elsewhere = |holder, wait| Step::Ask { lock: 1, holder, side: Side::Plain, lease: LONG, wait, max: None };
    let mut play = play.on(&[calls(0), elsewhere(ANN, None), ask(ANN, Side::Plain, None)]);
    for _ in 0..40 {
        play.take(&Step::AskByTicket {
            session: 0,
            lock: 1,
            holder: BOB,
            side: Side::Plain,
            lease: LONG,
            wait: 0,
            max: None,
        });
    }
    let play = play.on(&[
        ask_by_ticket(0, BOB, Side::Plain),
        ask(CID, Side::Plain, Some(0)),
        Step::Disconnect { connection: 0 },
        Step::Release { lock: 1, holder: ANN, side: None, all: true },
        elsewhere(DAN, None),
        Step::Renew { lock: 0, holder: ANN, lease: LONG },
        Step::Busy(true),
        calls(0),
        release(ANN),
    ]);
    assert_eq!(play.inside(), ["bob:1"]);
    play.end();
}

/// Ann has the lock, and waits for it once more in a grace, behind bob. When it is over nothing but ann can free the lock.
#[test]
fn who_waits_for_its_own_lock_in_a_grace_is_let_in_when_it_is_over() {
    for side in [Side::Plain, Side::Write, Side::Read] {
        let other = if side == Side::Read { Side::Write } else { side };
        let begins = [Step::SetGrace(2 * LONG), ask(ANN, side, None), Step::BecomeMaster];
        let wait = [ask(BOB, other, Some(0)), ask(ANN, side, Some(0))];
        let play = Play::new().on(&begins).on(&wait);
        assert_eq!(play.waiting().len(), 2);
        let play = play.on(&[Step::SetGrace(0)]);
        assert_eq!(play.waiting().len(), 1, "bob waits on");
        play.on(&[release(ANN)]).end();
    }
}

/// Nobody was there to be told of ann's ticket when ann got the lock. Somebody is back in a grace.
#[test]
fn a_namesake_whose_session_is_back_in_a_grace_is_let_in_when_it_is_over() {
    let side = Side::Plain;
    let begins = [Step::SetGrace(5 * LONG), calls(0), ask(DAN, side, None), ask(ANN, side, Some(0))];
    let waits = [ask(CID, side, Some(0)), ask_by_ticket(0, ANN, side), Step::Disconnect { connection: 0 }];
    let play = Play::new().on(&begins).on(&waits).on(&[release(DAN), Step::BecomeMaster, calls(0)]);
    assert_eq!(play.waiting().len(), 2, "cid, and a ticket of ann");
    let play = play.on(&[Step::SetGrace(0)]);
    assert_eq!(play.waiting().len(), 1, "cid waits on");
    play.end();
}
