//! Histories of sessions that were found or thought of. Each has a name.

use super::play::Play;
use super::world::Look;
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
    assert_eq!(play.told.len(), 1, "bob's session is notified");
    play
}

#[test]
fn events_of_a_dead_connection_are_delivered_again_on_the_next() {
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
fn events_of_an_unwritten_reply_are_delivered_on_the_next_connection() {
    let before = [calls(0), ask(ANN, Side::Plain, None), ask_by_ticket(0, BOB, Side::Plain), Step::NextAnswerIsLost];
    let play = Play::new().on(&before).on(&[release(ANN)]);
    assert_eq!(play.told, []);
    let play = play.on(&[calls(0)]);
    assert_eq!(play.told, [(5, 1, "one-0".to_owned(), Outcome::Granted { token: None })]);
    play.end();
}

/// The same, but no call waits, so the grant is in no reply.
fn bob_is_granted_without_an_event(side: Side) -> Play {
    let side_of_bob = ask_by_ticket(0, BOB, side);
    let before = [events(0, Ack::None, None), ask(ANN, side, None), side_of_bob, ask(CID, side, Some(0)), release(ANN)];
    let play = Play::new().on(&before);
    assert!(play.told.is_empty() && play.world.is_inside(0, "bob:1"));
    play
}

#[test]
fn a_grant_outlives_its_session_with_or_without_its_event() {
    let again = [Step::Disconnect { connection: 0 }, events(0, Ack::None, None)];
    for (granted, before) in [
        (bob_is_granted as fn(Side) -> Play, &[][..]),
        (bob_is_granted, &[events(0, Ack::All, None)]),
        (bob_is_granted, &again),
        (bob_is_granted_without_an_event, &[]),
        (bob_is_granted_without_an_event, &again),
    ] {
        for end in [&[Step::End { session: 0 }][..], &[Step::Disconnect { connection: 0 }, Step::Advance { ms: 3_000 }]]
        {
            let play = granted(Side::Plain).on(before).on(end);
            assert_eq!((play.inside(), play.sessions.len()), (vec!["bob:1".to_owned()], 0), "{before:?}, {end:?}");
            let play = play.on(&[Step::Advance { ms: 4 * LONG + 10 }]);
            assert_eq!(play.inside(), ["cid:1"], "until its lease ends");
            play.end();
        }
    }
}

/// The event always has the time left of the lease, which bob makes shorter.
#[test]
fn an_event_has_the_time_left_at_its_delivery() {
    let history = [calls(0), ask(ANN, Side::Plain, None), ask_by_ticket(0, BOB, Side::Plain), release(ANN)];
    let play = Play::new().on(&history);
    assert_eq!(play.left_ms, [4 * LONG + 1]);
    let renew = Step::Renew { lock: 0, holder: BOB, lease: 41 };
    let later = [renew, Step::Disconnect { connection: 0 }, Step::Advance { ms: 40 }, events(0, Ack::None, None)];
    let play = play.on(&later);
    assert_eq!(play.left_ms[1..], [1]);
    play.end();
}

#[test]
fn a_grant_that_is_cancelled_is_its_holders_to_release() {
    for side in [Side::Plain, Side::Write] {
        for granted in [bob_is_granted(side), bob_is_granted_without_an_event(side)] {
            let play = granted.on(&[Step::Cancel { session: 0, tickets: vec![0] }, events(0, Ack::None, None)]);
            assert!(play.world.is_inside(0, "bob:1") && play.sessions.get("one").unwrap().events() == 0);
            let play = play.on(&[release(BOB)]);
            assert!(play.world.is_inside(0, "cid:1"));
            play.end();
        }
    }
}

/// Bob was granted the lock, and his session waits for it by two more tickets. It takes back one of those, then bob's, then
/// the other: the server comes to one in each turn.
fn all_are_being_taken_back(granted: Play) -> Play {
    let more = [DAN, ANN].map(|holder| ask_by_ticket(0, holder, Side::Plain));
    let cancels = Step::Cancel { session: 0, tickets: vec![1, 0, 2] };
    let play = granted.on(&more).on(&[Step::Turn(1), Step::Busy(true), cancels]);
    assert_eq!((play.waiting().len(), play.taken_back.commands.len()), (2, 1), "cid waits, and one of the tickets");
    play
}

#[test]
fn a_cancel_that_takes_several_turns_is_answered_in_the_last_one() {
    let both =
        || [bob_is_granted(Side::Plain), bob_is_granted_without_an_event(Side::Plain)].map(all_are_being_taken_back);
    for mut play in both() {
        for waiting in [2, 1] {
            play = play.on(&[Step::OneTurn]);
            assert_eq!((play.waiting().len(), play.taken_back.commands.len()), (waiting, 1), "it has no answer");
        }
        let play = play.on(&[Step::OneTurn]);
        assert!(play.taken_back.commands.is_empty() && play.inside() == ["bob:1"]);
        play.end();
    }
    for play in both() {
        let gives_up = [Step::GiveUpCancel { cancel: 0 }, Step::Pause(true), Step::OneTurn, Step::OneTurn];
        let play = play.on(&gives_up).on(&[Step::PauseEnds]);
        assert_eq!((play.inside(), play.waiting().len()), (vec!["bob:1".to_owned()], 1), "the rest is taken back");
        play.on(&[Step::Busy(false)]).end();
    }
}

/// Dan's and bob's tickets wait in an unattended session when bob asks in another way.
#[test]
fn a_request_from_elsewhere_takes_the_place_of_an_unattended_ticket() {
    let history = [
        calls(0),
        ask(ANN, Side::Plain, None),
        ask_by_ticket(0, DAN, Side::Plain),
        ask_by_ticket(0, BOB, Side::Plain),
        ask(CID, Side::Plain, Some(0)),
        Step::Disconnect { connection: 0 },
    ];
    for bob_comes in [&[ask(BOB, Side::Plain, Some(0))][..], &[calls(1), ask_by_ticket(1, BOB, Side::Plain)]] {
        let play = Play::new().on(&history).on(bob_comes).on(&[release(ANN)]);
        assert_eq!(play.inside(), ["bob:1"], "before cid");
        let told_before = play.told.len();
        let play = play.on(&[calls(0)]);
        assert_eq!(play.world.fields(0)["bob:1"], "1");
        let told: Vec<_> = play.told[told_before..].iter().map(|told| (&*told.2, told.3)).collect();
        assert_eq!(told, [("one-1", Outcome::Replaced)]);
        play.end();
    }
    // A request that does not wait takes no place: the ticket waits on, and has its turn.
    let play = Play::new().on(&history).on(&[release(ANN), release(CID), ask(BOB, Side::Plain, None), calls(0)]);
    assert_eq!((play.inside(), play.waiting().len()), (vec!["bob:1".to_owned()], 2));
    let play = play.on(&[release(BOB), release(DAN)]);
    assert_eq!((play.inside(), play.waiting().len()), (vec!["bob:1".to_owned()], 0));
    play.end();
}

/// The first session does not read its events, so its tickets are passed over.
#[test]
fn a_session_that_does_not_read_is_passed_over_until_it_does() {
    let most = EVENTS_UNREAD_MAX;
    let play = Play::new();
    play.world.allow_tickets(most + 10);
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
    assert_eq!(play.told.len(), most + 1, "all are notified");
    let play = play.on(&[events(0, Ack::AllBut(most as u64 + 1), Some(0)), release(ANN)]);
    assert_eq!(play.inside(), ["cid:1"], "delivered, but not acknowledged");
    let play = play.on(&[Step::Advance { ms: 10 }, events(0, Ack::AllBut(1_000), Some(0)), release(CID)]);
    assert_eq!(play.inside(), ["bob:1"], "so many may be open");
    play.end();
}

/// Ann reads, bob waits to write in a session, and cid to read behind him. Bob's session is left, comes back for a
/// moment, and is left again.
#[test]
fn readers_are_granted_each_time_the_writer_before_them_is_unattended() {
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

/// A newcomer passes over the unattended writer before the server has noticed that it is unattended.
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

/// Bob's session is left twice. At the second time, the server has not finished the checks that the first time asked for.
#[test]
fn a_session_that_is_abandoned_again_is_checked_from_the_start() {
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

/// When cid comes, the only ticket is unattended, and the lease is shorter than it was when the ticket came.
#[test]
fn a_waiter_behind_unattended_ones_alone_is_woken_by_the_end_of_the_lease() {
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

/// More tickets of the session were passed over than are put back at once. Cid waits behind the last of them.
#[test]
fn a_session_that_returns_with_many_tickets_is_first_at_once() {
    let play = Play::new();
    play.world.allow_tickets(100);
    let elsewhere = |holder, wait| Step::Ask { lock: 1, holder, side: Side::Plain, lease: LONG, wait, max: None };
    let mut play = play.on(&[calls(0), elsewhere(ANN, None), ask(ANN, Side::Plain, None)]);
    for holder in 4..44 {
        play.take(&Step::AskByTicket {
            session: 0,
            lock: 1,
            holder,
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

/// Ann has the lock, and waits for it again in a grace, behind bob. When the grace is over, only ann can free the lock.
#[test]
fn a_waiter_for_its_own_lock_is_granted_it_after_the_grace() {
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

/// Cid reads. Bob's session is back and its tickets are still aside, and dan's request finds bob before it.
#[test]
fn a_newcomer_that_finds_a_returning_waiter_has_it_served() {
    let history = [
        events(0, Ack::None, None),
        ask(ANN, Side::Write, None),
        ask_by_ticket(0, BOB, Side::Read),
        Step::Advance { ms: 1_000 },
        release(ANN),
        ask(CID, Side::Read, None),
        Step::Busy(true),
        events(0, Ack::None, None),
        ask(DAN, Side::Read, Some(0)),
        Step::OneTurn,
    ];
    assert_eq!(Play::new().on(&history).inside(), ["bob:1", "cid:1", "dan:1"]);
}
