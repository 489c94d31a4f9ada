//! Waiting, as a whole: random histories of several clients and sessions that ask for locks, wait, give up, die, and
//! are served, while leases end, keys go, connections break, writes are paused and the server changes its role; with a
//! clock that the test moves.
//!
//! The checks are the purposes of waiting. What a session gets, and when it is attended, is compared
//! with a naive reference that was written from the contract alone.
//!
//! Here is what may happen. [`world`] is where waiters are served, [`play`] and [`calls`] take the steps,
//! [`sessions`] is the reference, and [`checks`] checks it all.
//! [`explored`] takes every step in every state of a small world, instead of some.

mod calls;
mod checks;
mod explored;
mod named;
mod named_sessions;
mod play;
mod sessions;
mod world;

use crate::permit;
use play::Play;
use proptest::prelude::*;
use rlock_core::lock::Side;
use world::HOLDERS;

/// The names of sessions; one more than may be open at a time.
const SESSIONS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum Step {
    Ask {
        lock: usize,
        holder: usize,
        side: Side,
        lease: i64,
        wait: Option<i64>,
        max: Option<usize>,
    },
    AskByTicket {
        session: usize,
        lock: usize,
        holder: usize,
        side: Side,
        lease: i64,
        wait: i64,
        max: Option<usize>,
    },
    /// A ticket's request is sent again; or its name is, for another lock.
    AskAgain {
        session: usize,
        ticket: usize,
        other: bool,
    },
    Release {
        lock: usize,
        holder: usize,
        side: Option<Side>,
        all: bool,
    },
    Renew {
        lock: usize,
        holder: usize,
        lease: i64,
    },
    Events(EventsAsked),
    /// Cancels tickets, new or old.
    Cancel {
        session: usize,
        tickets: Vec<usize>,
    },
    /// A client is unblocked during its CANCEL, or dies.
    GiveUpCancel {
        cancel: usize,
    },
    /// CANCEL without tickets.
    End {
        session: usize,
    },
    Disconnect {
        connection: usize,
    },
    /// CLIENT UNBLOCK of a call that waits for events.
    Unblock {
        connection: usize,
    },
    /// The connection of the next call that is answered breaks before the answer is written.
    NextAnswerIsLost,
    /// Another user asks for this session.
    Stranger {
        session: usize,
    },
    HangUp {
        waiter: usize,
    },
    /// The next client that is granted the lock is gone before its reply is sent.
    NextOneDies,
    Advance {
        ms: i64,
    },
    ForeignDelete {
        lock: usize,
    },
    /// An operator breaks the lock.
    Break {
        lock: usize,
    },
    /// Writes are paused, or no longer; then time passes until the server has noticed.
    Pause(bool),
    PauseEnds,
    BecomeReplica,
    /// Another server has failed, and this one takes its place.
    BecomeMaster,
    SetGrace(i64),
    /// The server stalled, and grants and renews nothing for this time.
    StandsStill(i64),
    /// From now on a turn of the server lasts for this many pieces of work.
    Turn(u32),
    /// Whether the server comes to its agenda from now on, or has commands to run first.
    Busy(bool),
    /// The server comes to its agenda for one turn.
    OneTurn,
}

/// A call for events.
#[derive(Clone, Debug)]
struct EventsAsked {
    session: usize,
    connection: usize,
    ack: Ack,
    wait: Option<i64>,
    ttl: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
enum Ack {
    None,
    All,
    AllBut(u64),
    /// One more than was sent.
    TooMany,
}

/// The MAX of a request: one more than the waiters that it may be behind.
fn max() -> impl Strategy<Value = Option<usize>> {
    prop::option::weighted(0.3, 1..5_usize)
}

/// The steps without sessions.
fn step<const N: usize>(sides: [Side; N]) -> impl Strategy<Value = Step> {
    let holder = 0..HOLDERS.len();
    let wait = prop::option::weighted(0.7, prop_oneof![Just(0), 1..60_i64]);
    let lease = prop_oneof![1..40_i64, 100..2_000_i64];
    let lock = 0;
    prop_oneof![
        20 => (holder.clone(), prop::sample::select(sides.to_vec()), lease.clone(), wait, max())
            .prop_map(move |(holder, side, lease, wait, max)| Step::Ask { lock, holder, side, lease, wait, max }),
        3 => (holder.clone(), lease).prop_map(move |(holder, lease)| Step::Renew { lock, holder, lease }),
        14 => (holder, prop::option::of(prop_oneof![Just(Side::Read), Just(Side::Write)]), any::<bool>())
            .prop_map(move |(holder, side, all)| Step::Release { lock, holder, side, all }),
        4 => (0..20_usize).prop_map(|waiter| Step::HangUp { waiter }),
        2 => Just(Step::NextOneDies),
        6 => prop_oneof![1..5_i64, 10..100_i64, 500..3_000_i64].prop_map(|ms| Step::Advance { ms }),
        2 => Just(Step::ForeignDelete { lock }),
        2 => Just(Step::Break { lock }),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::BecomeReplica),
        1 => Just(Step::BecomeMaster),
        1 => prop_oneof![Just(0), 5..60_i64, 200..3_000_i64].prop_map(Step::SetGrace),
        1 => (1..100_i64).prop_map(Step::StandsStill),
        2 => prop_oneof![Just(1), Just(2), Just(100)].prop_map(Step::Turn),
        3 => any::<bool>().prop_map(Step::Busy),
    ]
}

/// The steps with sessions and two locks, with more requests for the first lock.
fn session_step<const N: usize>(sides: [Side; N]) -> impl Strategy<Value = Step> {
    let lock = || prop_oneof![3 => Just(0_usize), 1 => Just(1_usize)];
    let holder = || 0..HOLDERS.len();
    let side = prop::sample::select(sides.to_vec());
    let session = || prop_oneof![6 => Just(0_usize), 4 => Just(1_usize), 1 => Just(2_usize)];
    let connection = || 0..4_usize;
    let lease = || prop_oneof![1..40_i64, 100..2_000_i64];
    let limit = prop_oneof![3 => Just(0), 2 => 1..400_i64];
    let asks = (lock(), holder(), side.clone(), lease(), prop::option::weighted(0.5, limit.clone()), max())
        .prop_map(|(lock, holder, side, lease, wait, max)| Step::Ask { lock, holder, side, lease, wait, max });
    let asks_by_ticket = (session(), lock(), holder(), side, lease(), limit, max()).prop_map(
        |(session, lock, holder, side, lease, wait, max)| Step::AskByTicket {
            session,
            lock,
            holder,
            side,
            lease,
            wait,
            max,
        },
    );
    let asks_again = (session(), 0..20_usize, prop::bool::weighted(0.2))
        .prop_map(|(session, ticket, other)| Step::AskAgain { session, ticket, other });
    let cancels = (session(), prop::collection::vec(0..20_usize, 1..6))
        .prop_map(|(session, tickets)| Step::Cancel { session, tickets });
    let ms = prop_oneof![3 => 1..5_i64, 3 => 10..120_i64, 2 => 300..1_100_i64, 1 => 3_000..7_000_i64];
    let releases =
        (lock(), holder(), prop::option::of(prop_oneof![Just(Side::Read), Just(Side::Write)]), any::<bool>())
            .prop_map(|(lock, holder, side, all)| Step::Release { lock, holder, side, all });
    let waits = prop_oneof![
        8 => asks,
        16 => asks_by_ticket,
        4 => asks_again,
        12 => releases,
        2 => (lock(), holder(), lease()).prop_map(|(lock, holder, lease)| Step::Renew { lock, holder, lease }),
        2 => (0..20_usize).prop_map(|waiter| Step::HangUp { waiter }),
    ];
    let sessions = prop_oneof![
        18 => events(session(), connection()).prop_map(Step::Events),
        3 => cancels,
        1 => (0..3_usize).prop_map(|cancel| Step::GiveUpCancel { cancel }),
        1 => session().prop_map(|session| Step::End { session }),
        4 => connection().prop_map(|connection| Step::Disconnect { connection }),
        1 => connection().prop_map(|connection| Step::Unblock { connection }),
        1 => Just(Step::NextAnswerIsLost),
        1 => session().prop_map(|session| Step::Stranger { session }),
    ];
    let world = prop_oneof![
        8 => ms.prop_map(|ms| Step::Advance { ms }),
        1 => Just(Step::NextOneDies),
        1 => lock().prop_map(|lock| Step::ForeignDelete { lock }),
        1 => lock().prop_map(|lock| Step::Break { lock }),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::PauseEnds),
        1 => Just(Step::BecomeReplica),
        1 => Just(Step::BecomeMaster),
        1 => prop_oneof![Just(0), 5..60_i64, 200..3_000_i64].prop_map(Step::SetGrace),
        1 => (1..100_i64).prop_map(Step::StandsStill),
        2 => prop_oneof![Just(1), Just(2), Just(100)].prop_map(Step::Turn),
        3 => any::<bool>().prop_map(Step::Busy),
        2 => Just(Step::OneTurn),
    ];
    prop_oneof![44 => waits, 29 => sessions, 22 => world]
}

fn events(
    session: impl Strategy<Value = usize>,
    connection: impl Strategy<Value = usize>,
) -> impl Strategy<Value = EventsAsked> {
    let ack = prop_oneof![
        4 => Just(Ack::None),
        6 => Just(Ack::All),
        2 => (1..3_u64).prop_map(Ack::AllBut),
        1 => Just(Ack::TooMany),
    ];
    let wait = prop::option::weighted(0.7, prop_oneof![3 => Just(0), 1 => 1..400_i64]);
    let ttl = prop::option::weighted(0.5, prop::sample::select(&[1_000, 1_200, 3_000, 6_000][..]));
    (session, connection, ack, wait, ttl).prop_map(|(session, connection, ack, wait, ttl)| EventsAsked {
        session,
        connection,
        ack,
        wait,
        ttl,
    })
}

fn play(history: &[Step]) {
    let mut play = Play::new();
    for step in history {
        play.take(step);
        play.check();
    }
    play.end();
}

proptest! {
    #![proptest_config(crate::config(3_000))]

    #[test]
    fn plain_locks_are_waited_for(history in prop::collection::vec(step([Side::Plain]), 1..150)) {
        play(&history);
    }

    #[test]
    fn read_write_locks_are_waited_for(
        history in prop::collection::vec(step([Side::Read, Side::Read, Side::Write]), 1..150)
    ) {
        play(&history);
    }

    #[test]
    fn permits_are_waited_for(history in prop::collection::vec(step([permit(1), permit(2), permit(3)]), 1..150)) {
        play(&history);
    }

    #[test]
    fn locks_of_changing_kinds_are_waited_for(
        history in prop::collection::vec(step([Side::Plain, Side::Read, Side::Write, permit(2)]), 1..150)
    ) {
        play(&history);
    }

}

proptest! {
    #![proptest_config(crate::config(1_500))]

    #[test]
    fn plain_locks_are_waited_for_in_sessions(history in prop::collection::vec(session_step([Side::Plain]), 1..150)) {
        play(&history);
    }

    #[test]
    fn read_write_locks_are_waited_for_in_sessions(
        history in prop::collection::vec(session_step([Side::Read, Side::Read, Side::Write]), 1..150)
    ) {
        play(&history);
    }

    #[test]
    fn permits_are_waited_for_in_sessions(
        history in prop::collection::vec(session_step([permit(1), permit(2), permit(3)]), 1..150)
    ) {
        play(&history);
    }

    #[test]
    fn locks_of_changing_kinds_are_waited_for_in_sessions(
        history in prop::collection::vec(session_step([Side::Plain, Side::Read, Side::Write, permit(2)]), 1..150)
    ) {
        play(&history);
    }
}
