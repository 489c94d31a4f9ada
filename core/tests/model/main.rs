//! Random histories of all commands by several holders, with a clock that the test moves: after each step the
//! decisions of `rlock_core::lock` must have given the same reply, left the same keys with the same leases, and published
//! the same messages as a naive reference that was written from the contract alone.
//!
//! A history that fails is shrunk, and its seed is kept in `failing-seeds.txt` beside this file and tried first from then on.

mod hand_over;
mod keyspace;
mod reference;
mod sets;
mod waiting;

use keyspace::{HolderView, Keyspace};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use reference::{Reference, Reply};
use rlock_core::lock::{self, Decision, Grace, Lease, Limit, Refusal, Release, Released, Renewed, Side, Verdict, Wish};

#[derive(Clone, Debug)]
enum Step {
    Ours(Command),
    World(Event),
}

#[derive(Clone, Debug)]
enum Command {
    Acquire { holder: usize, side: Side, lease: i64, fenced: bool },
    Release { holder: usize, side: Option<Side>, lease: Option<i64>, all: bool },
    Renew { holder: usize, lease: i64 },
}

/// What happens to a lock beside our commands.
#[derive(Clone, Copy, Debug)]
enum Event {
    Advance {
        ms: i64,
    },
    ForeignDelete,
    ForeignPersist,
    ForeignRemoval {
        holder: usize,
    },
    HoldKeyGoes {
        holder: usize,
        index: i64,
    },
    /// Tokens go by a clock that says this from now on; or by the counter alone.
    TokenClock {
        us: Option<i64>,
    },
    /// The grace is set to last so long, and so much is left of it.
    Grace {
        length: i64,
        left: i64,
    },
}

const HOLDERS: [&str; 3] = ["ann:1", "bob:1", "cid:7"];

/// Histories that favour one kind, since mixing kinds is refused and would soon be all that happens.
fn history<const N: usize>(kinds: [Side; N]) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(kinds), 1..120)
}

fn step<const N: usize>(kinds: [Side; N]) -> impl Strategy<Value = Step> {
    let holder = 0..HOLDERS.len();
    let lease = prop_oneof![1..20_i64, 50..500_i64];
    let side = prop::option::weighted(0.6, prop_oneof![Just(Side::Read), Just(Side::Write)]);
    let event = prop_oneof![
        12 => prop_oneof![1..10_i64, 20..300_i64].prop_map(|ms| Event::Advance { ms }),
        1 => Just(Event::ForeignDelete),
        1 => Just(Event::ForeignPersist),
        1 => holder.clone().prop_map(|holder| Event::ForeignRemoval { holder }),
        2 => (holder.clone(), 1..4_i64).prop_map(|(holder, index)| Event::HoldKeyGoes { holder, index }),
        2 => (prop_oneof![1 => Just(0), 2 => 10..600_i64], 0..60_i64)
            .prop_map(|(length, left)| Event::Grace { length, left: left.min(length) }),
        2 => prop::option::of(prop_oneof![0..30_i64, 900..1_000_i64, Just(i64::MAX)]).prop_map(|us| Event::TokenClock { us }),
    ];
    let command = prop_oneof![
        4 => (holder.clone(), prop::sample::select(kinds.to_vec()), lease.clone(), any::<bool>())
            .prop_map(|(holder, side, lease, fenced)| Command::Acquire { holder, side, lease, fenced }),
        3 => (holder.clone(), side, prop::option::weighted(0.3, lease.clone()), prop::bool::weighted(0.2))
            .prop_map(|(holder, side, lease, all)| Command::Release { holder, side, lease, all }),
        1 => (holder, lease).prop_map(|(holder, lease)| Command::Renew { holder, lease }),
    ];
    prop_oneof![4 => command.prop_map(Step::Ours), 1 => event.prop_map(Step::World)]
}

fn check(history: Vec<Step>, any_are_many: bool) {
    play(history, any_are_many, |_, _| {});
}

/// Plays a history on both. `look` is called after each step.
fn play(history: Vec<Step>, any_are_many: bool, mut look: impl FnMut(&Keyspace, &Reference)) {
    let (mut keyspace, mut reference) = (Keyspace::default(), Reference::default());
    (keyspace.any_are_many, reference.any_are_many) = (any_are_many, any_are_many);
    for (number, step) in history.into_iter().enumerate() {
        match &step {
            Step::Ours(command) => {
                let ours = decide(&mut keyspace, command);
                let expected = refer(&mut reference, command);
                assert_eq!(ours, expected, "the reply to step {number}, {command:?}");
            }
            Step::World(event) => happen(*event, &mut keyspace, &mut reference),
        }
        assert_eq!(keyspace.entries(), &reference.entries(), "the keys after step {number}, {step:?}");
        assert_eq!(keyspace.published, reference.published, "the messages after step {number}, {step:?}");
        reference.check_exclusion();
        look(&keyspace, &reference);
    }
}

fn happen(event: Event, keyspace: &mut Keyspace, reference: &mut Reference) {
    match event {
        Event::Advance { ms } => {
            keyspace.advance(ms);
            reference.advance(ms);
        }
        Event::ForeignDelete => {
            keyspace.delete("lock");
            reference.delete_lock();
        }
        Event::ForeignPersist => {
            keyspace.persist("lock");
            reference.persist_lock();
        }
        Event::ForeignRemoval { holder } => {
            keyspace.remove_permit(HOLDERS[holder]);
            reference.remove_permit(HOLDERS[holder]);
        }
        Event::HoldKeyGoes { holder, index } => {
            keyspace.delete(&keyspace::hold_key(HOLDERS[holder], index));
            reference.delete_hold_key(HOLDERS[holder], index);
        }
        Event::Grace { length, left } => {
            keyspace.grace = (length, keyspace.now + left);
            (reference.grace_length, reference.grace_until) = (length, reference.now + left);
        }
        Event::TokenClock { us } => {
            keyspace.token_clock_us = us;
            reference.token_clock_us = us;
        }
    }
}

/// The command as the decisions under test take it.
fn decide(keyspace: &mut Keyspace, command: &Command) -> Reply {
    let (now, grace) = (keyspace.now, keyspace.grace());
    let (holder, reply, changes) = match *command {
        Command::Acquire { holder, side, lease, fenced } => {
            let view = HolderView { keyspace: &*keyspace, holder: HOLDERS[holder] };
            let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced };
            let verdict = lock::acquire(&view, &wish, lock::Ahead::Nobody, grace, now);
            if let Ok(Verdict::Granted(effect)) = verdict {
                check_room(keyspace.clone(), holder, &effect, lease);
            }
            let decision = verdict.map(|verdict| match verdict {
                Verdict::Granted(effect) => {
                    Decision { answer: effect.token.map_or(Reply::Nil, Reply::Token), changes: effect.changes }
                }
                Verdict::Busy(busy) => Decision::unchanged(Reply::Number(busy.left_ms)),
            });
            taken(holder, decision, |reply| reply)
        }
        Command::Release { holder, side, lease, all } => {
            let lease = lease.map(|lease| Lease::from_ms(lease).unwrap());
            let view = HolderView { keyspace: &*keyspace, holder: HOLDERS[holder] };
            let reply = |released| match released {
                Released::NotHeld => Reply::Nil,
                Released::StillHeld => Reply::Number(0),
                Released::Free => Reply::Number(1),
            };
            taken(holder, lock::release(&view, Release { side, lease, all }, grace, now), reply)
        }
        Command::Renew { holder, lease } => {
            let view = HolderView { keyspace: &*keyspace, holder: HOLDERS[holder] };
            let reply = |renewed| Reply::Number(i64::from(renewed == Renewed::Restarted));
            taken(holder, lock::renew(&view, Lease::from_ms(lease).unwrap(), grace, now), reply)
        }
    };
    if let Some(changes) = changes {
        keyspace.apply(HOLDERS[holder], &changes);
    }
    reply
}

/// What a grant says of the next waiter: whether anybody else is granted the lock beside this holder.
fn check_room(mut keyspace: Keyspace, holder: usize, effect: &lock::Effect, lease: i64) {
    keyspace.apply(HOLDERS[holder], &effect.changes);
    let others = HOLDERS.into_iter().filter(|other| *other != HOLDERS[holder]);
    let sides = [Side::Plain, Side::Read, Side::Write, permit(1), permit(2), permit(3)];
    let mut wishes = others.flat_map(|other| sides.map(|side| (other, side)));
    let is_granted = wishes.any(|(holder, side)| {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced: false };
        let view = HolderView { keyspace: &keyspace, holder };
        matches!(
            lock::acquire(&view, &wish, lock::Ahead::Nobody, Grace::default(), keyspace.now),
            Ok(Verdict::Granted(_))
        )
    });
    assert!(effect.leaves_room || !is_granted, "{effect:?}");
}

fn taken<A>(
    holder: usize,
    decision: Result<Decision<A>, Refusal>,
    reply: impl Fn(A) -> Reply,
) -> (usize, Reply, Option<lock::Changes>) {
    match decision {
        Ok(decision) => (holder, reply(decision.answer), Some(decision.changes)),
        Err(refusal) => (holder, Reply::Error(code(refusal)), None),
    }
}

/// The first word of the error reply.
fn code(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::WrongType => "WRONGTYPE",
        Refusal::HoldsReadWrite | Refusal::HoldsPlain | Refusal::HoldsPermits => "WRONGKIND",
        Refusal::Deadlock => "DEADLOCK",
        Refusal::TokenOnItsWay => "TRYAGAIN",
        _ => "ERR",
    }
}

/// The command as the reference takes it.
fn refer(reference: &mut Reference, command: &Command) -> Reply {
    match *command {
        Command::Acquire { holder, side, lease, fenced } => reference.acquire(HOLDERS[holder], side, lease, fenced),
        Command::Release { holder, side, lease, all } => reference.release(HOLDERS[holder], side, lease, all),
        Command::Renew { holder, lease } => reference.renew(HOLDERS[holder], lease),
    }
}

/// One of so many permits.
const fn permit(limit: i64) -> Side {
    match Limit::new(limit) {
        Some(limit) => Side::Permit(limit),
        None => panic!("no limit"),
    }
}

/// PROPTEST_CASES asks for another number of cases.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/model/failing-seeds.txt"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn plain_locks_agree_with_the_reference(history in history([Side::Plain])) {
        check(history, false);
    }

    #[test]
    fn read_write_locks_agree_with_the_reference(history in history([Side::Read, Side::Read, Side::Write])) {
        check(history, false);
    }

    #[test]
    fn locks_of_many_readers_agree_with_the_reference(history in history([Side::Read, Side::Read, Side::Read, Side::Write])) {
        check(history, true);
    }

    #[test]
    fn permits_agree_with_the_reference(history in history([permit(1), permit(2), permit(3)])) {
        check(history, false);
    }

    #[test]
    fn mixed_kinds_agree_with_the_reference(history in history([Side::Plain, Side::Read, Side::Write, permit(2)])) {
        check(history, false);
    }
}
