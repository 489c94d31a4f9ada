//! Random histories of all commands by several holders, with a clock that the test moves. After each step the decisions of
//! `rlock_core::lock` must have given the same reply, left the same keys with the same leases, and published the same
//! messages as the naive [`Reference`].
//!
//! A history that fails is shrunk, and its seed is kept in `failing-seeds.txt` next to this file and tried first from then on.

mod by_words;
mod hand_over;
mod once;
mod scene;
mod sets;
mod waiting;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rlock_core::lock::{
    self, Changes, Decision, Grace, Lease, Limit, Record, Refusal, Release, Released, Renewed, Side, UnixMs, Verdict,
    Wish, names,
};
use rlock_sim::{Clocks, Entry, Keyspace, Memory, Plain, Reference, Reply, View};

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
    Once { holder: usize, lease: i64 },
    Answer { holder: usize, value: usize, keep: i64 },
}

/// What happens to a lock other than by our commands.
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
    AnswerGoes,
    /// Tokens go by a clock that says this from now on; or by the counter alone.
    TokenClock {
        us: Option<i64>,
    },
    /// The grace is set to this length, and this much of it is left.
    Grace {
        length: i64,
        left: i64,
    },
}

/// Values of answers.
const ANSWERS: [&[u8]; 3] = [b"", b"42", b"\r\n\0\xff"];

const HOLDERS: [&str; 3] = ["ann:1", "bob:1", "cid:7"];

/// Histories that favour one kind, since mixing kinds is refused, and soon nothing else would happen.
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
        1 => Just(Event::AnswerGoes),
        2 => (prop_oneof![1 => Just(0), 2 => 10..600_i64], 0..60_i64)
            .prop_map(|(length, left)| Event::Grace { length, left: left.min(length) }),
        2 => prop::option::of(prop_oneof![0..30_i64, 900..1_000_i64, Just(i64::MAX)]).prop_map(|us| Event::TokenClock { us }),
    ];
    let command = prop_oneof![
        4 => (holder.clone(), prop::sample::select(kinds.to_vec()), lease.clone(), any::<bool>())
            .prop_map(|(holder, side, lease, fenced)| Command::Acquire { holder, side, lease, fenced }),
        3 => (holder.clone(), side, prop::option::weighted(0.3, lease.clone()), prop::bool::weighted(0.2))
            .prop_map(|(holder, side, lease, all)| Command::Release { holder, side, lease, all }),
        1 => (holder.clone(), lease.clone()).prop_map(|(holder, lease)| Command::Renew { holder, lease }),
        1 => (holder.clone(), lease.clone()).prop_map(|(holder, lease)| Command::Once { holder, lease }),
        1 => (holder, 0..ANSWERS.len(), lease).prop_map(|(holder, value, keep)| Command::Answer { holder, value, keep }),
    ];
    prop_oneof![4 => command.prop_map(Step::Ours), 1 => event.prop_map(Step::World)]
}

fn check(history: Vec<Step>, any_are_many: bool) {
    play(history, any_are_many, |_, _| {});
}

/// The lock's key.
const LOCK: &str = "lock";

/// The lock on which the decisions are carried out.
#[derive(Clone, Default)]
struct Lock {
    keyspace: Keyspace,
    clocks: Clocks,
    /// How long a grace lasts, and until when one runs.
    grace: (i64, UnixMs),
    published: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Lock {
    fn now(&self) -> UnixMs {
        self.keyspace.now()
    }

    fn grace(&self) -> Grace {
        Grace { length_ms: self.grace.0, left_ms: (self.grace.1 - self.now()).max(0) }
    }

    fn seen_by<'a>(&'a self, holder: &'a str) -> View<'a, &'a Keyspace> {
        let (key, holder) = (LOCK.as_bytes(), holder.as_bytes());
        View { keyspace: &self.keyspace, database: 0, key, holder, clocks: self.clocks }
    }

    fn entries(&self) -> Vec<(&[u8], &Entry)> {
        self.keyspace.entries(0).collect()
    }

    /// Applies everything in one step, changes of the lock's own key first.
    fn apply<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, Changes)>) {
        self.apply_with(all, None);
    }

    /// The same with an answer to be stored.
    fn apply_with<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, Changes)>, answer: Option<&[u8]>) {
        let changes = all.into_iter().map(|(holder, changes)| (LOCK.as_bytes(), holder.as_bytes(), changes));
        self.published.extend(self.keyspace.apply(0, &changes.collect::<Vec<_>>(), answer));
    }

    /// What RLOCK.INSPECT shows of the stored answer.
    fn seen_answer(&self) -> Option<(usize, i64)> {
        let answer = self.keyspace.answer(0, LOCK.as_bytes()).unwrap();
        answer.map(|(value, end)| (value.len(), end.left_ms(self.now())))
    }

    fn run(&mut self, command: Plain<'_>) {
        self.keyspace.run(0, command);
    }
}

/// Lets time pass. The ends of keys are not reported to the engine.
fn pass<W>(world: &Memory<W>, ms: i64) {
    let mut keyspace = world.keyspace.borrow_mut();
    let now = keyspace.now() + ms.max(0);
    keyspace.set_now(now);
    world.steady_ms.set(now);
    while keyspace.take_ended().is_some() {}
}

fn entries_of(expected: &std::collections::BTreeMap<Vec<u8>, Entry>) -> Vec<(&[u8], &Entry)> {
    expected.iter().map(|(key, entry)| (&key[..], entry)).collect()
}

/// Plays a history on the decisions and on the reference. `look` is called after each step.
fn play(history: Vec<Step>, any_are_many: bool, mut look: impl FnMut(&Lock, &Reference)) {
    let (mut lock, mut reference) = (Lock::default(), Reference::of(LOCK));
    (lock.clocks.any_are_many, reference.any_are_many) = (any_are_many, any_are_many);
    for (number, step) in history.into_iter().enumerate() {
        match &step {
            Step::Ours(command) => {
                let ours = decide(&mut lock, command);
                let expected = refer(&mut reference, command);
                assert_eq!(ours, expected, "the reply to step {number}, {command:?}");
            }
            Step::World(event) => happen(*event, &mut lock, &mut reference),
        }
        assert_eq!(lock.entries(), entries_of(&reference.entries()), "the keys after step {number}, {step:?}");
        assert_eq!(lock.published, reference.published, "the messages after step {number}, {step:?}");
        assert_eq!(lock.seen_answer(), reference.seen_answer(), "the answer after step {number}, {step:?}");
        reference.check_exclusion();
        look(&lock, &reference);
    }
}

fn happen(event: Event, lock: &mut Lock, reference: &mut Reference) {
    let key = LOCK.as_bytes();
    match event {
        Event::Advance { ms } => {
            lock.keyspace.set_now(lock.now() + ms);
            reference.advance(ms);
        }
        Event::ForeignDelete => {
            lock.run(Plain::Del { key });
            reference.delete_lock();
        }
        Event::ForeignPersist => {
            lock.run(Plain::Persist { key });
            reference.persist_lock();
        }
        Event::ForeignRemoval { holder } => {
            lock.run(Plain::ZRem { key, member: HOLDERS[holder].as_bytes() });
            reference.remove_permit(HOLDERS[holder]);
        }
        Event::HoldKeyGoes { holder, index } => {
            names::read_hold(key, HOLDERS[holder].as_bytes(), index, |key| lock.run(Plain::Del { key }));
            reference.delete_hold_key(HOLDERS[holder], index);
        }
        Event::AnswerGoes => {
            names::answer(key, |key| lock.run(Plain::Del { key }));
            reference.delete_answer();
        }
        Event::Grace { length, left } => {
            lock.grace = (length, lock.now() + left);
            (reference.grace_length, reference.grace_until) = (length, reference.now + left);
        }
        Event::TokenClock { us } => {
            lock.clocks.tokens_us = us;
            reference.token_clock_us = us;
        }
    }
}

/// The command as the decisions under test take it.
fn decide(lock: &mut Lock, command: &Command) -> Reply {
    let (now, grace) = (lock.now(), lock.grace());
    let mut answer = None;
    let (holder, reply, changes) = match *command {
        Command::Acquire { holder, side, lease, fenced } => acquire(lock, holder, side, lease, fenced),
        Command::Once { holder, lease } => {
            let stored = lock.seen_by(HOLDERS[holder]).with_answer(|answer| answer.map(|(value, _)| value.to_vec()));
            match stored.unwrap() {
                Some(value) => return Reply::Answer(value),
                None => acquire(lock, holder, Side::Plain, lease, false),
            }
        }
        Command::Answer { holder, value, keep } => {
            answer = Some(ANSWERS[value]);
            let keep = Lease::from_ms(keep).unwrap();
            let reply = |is_stored| if is_stored { Reply::Number(1) } else { Reply::Nil };
            taken(holder, lock::answer(&lock.seen_by(HOLDERS[holder]), keep, now), reply)
        }
        Command::Release { holder, side, lease, all } => {
            let lease = lease.map(|lease| Lease::from_ms(lease).unwrap());
            let want = Release { side, lease, all };
            let reply = |released| match released {
                Released::NotHeld => Reply::Nil,
                Released::StillHeld => Reply::Number(0),
                Released::Free => Reply::Number(1),
            };
            taken(holder, lock::release(&lock.seen_by(HOLDERS[holder]), want, grace, now), reply)
        }
        Command::Renew { holder, lease } => {
            let lease = Lease::from_ms(lease).unwrap();
            let reply = |renewed| Reply::Number(i64::from(renewed == Renewed::Restarted));
            taken(holder, lock::renew(&lock.seen_by(HOLDERS[holder]), lease, grace, now), reply)
        }
    };
    lock.apply_with(changes.map(|changes| (HOLDERS[holder], changes)), answer);
    reply
}

fn acquire(lock: &Lock, holder: usize, side: Side, lease: i64, fenced: bool) -> (usize, Reply, Option<Changes>) {
    let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced };
    let verdict = lock::acquire(&lock.seen_by(HOLDERS[holder]), &wish, lock::Ahead::Nobody, lock.grace(), lock.now());
    if let Ok(Verdict::Granted(effect)) = verdict {
        check_room(lock.clone(), holder, &effect, lease);
    }
    let decision = verdict.map(|verdict| match verdict {
        Verdict::Granted(effect) => {
            Decision { answer: effect.token.map_or(Reply::Nil, Reply::Token), changes: effect.changes }
        }
        Verdict::Busy(busy) => Decision::unchanged(Reply::Number(busy.left_ms)),
    });
    taken(holder, decision, |reply| reply)
}

/// Checks what a grant says of the next waiter: whether another holder can be granted the lock, too.
fn check_room(mut lock: Lock, holder: usize, effect: &lock::Effect, lease: i64) {
    lock.apply([(HOLDERS[holder], effect.changes)]);
    let others = HOLDERS.into_iter().filter(|other| *other != HOLDERS[holder]);
    let sides = [Side::Plain, Side::Read, Side::Write, permit(1), permit(2), permit(3)];
    let mut wishes = others.flat_map(|other| sides.map(|side| (other, side)));
    let is_granted = wishes.any(|(holder, side)| {
        let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced: false };
        let verdict = lock::acquire(&lock.seen_by(holder), &wish, lock::Ahead::Nobody, Grace::default(), lock.now());
        matches!(verdict, Ok(Verdict::Granted(_)))
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
        Refusal::KeysOnTheirWay => "TRYAGAIN",
        _ => "ERR",
    }
}

/// The command as the reference takes it.
fn refer(reference: &mut Reference, command: &Command) -> Reply {
    match *command {
        Command::Acquire { holder, side, lease, fenced } => reference.acquire(HOLDERS[holder], side, lease, fenced),
        Command::Release { holder, side, lease, all } => reference.release(HOLDERS[holder], side, lease, all),
        Command::Renew { holder, lease } => reference.renew(HOLDERS[holder], lease),
        Command::Once { holder, lease } => reference.once(HOLDERS[holder], lease),
        Command::Answer { holder, value, keep } => reference.answer(HOLDERS[holder], ANSWERS[value], keep),
    }
}

/// Prints the history if it is not sound.
struct Told<'a, S: std::fmt::Debug>(&'a [&'a S]);

impl<S: std::fmt::Debug> Drop for Told<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- after {:?} ---", self.0);
        }
    }
}

/// EXPLORE_STEPS asks for longer histories of small worlds.
fn explored_steps(steps: u32) -> u32 {
    std::env::var("EXPLORE_STEPS").map_or(steps, |steps| steps.parse().expect("a number"))
}

/// The side of a permit with this limit.
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
