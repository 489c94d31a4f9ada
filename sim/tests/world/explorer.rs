//! Every history of a number of moves in a small world, where random histories may miss one: a program that follows a
//! script, and a network that reorders anything, with a fault or two anywhere.
//!
//! Two histories that lead to the same visible state are one from there on. Visible are the servers, the messages under
//! way, what callers have, the sizes of the engine's tables and when it is next due. That is less than the engine
//! knows, so a distinct history may be left out.
//!
//! Each history, however long, then comes to rest, and must leave nothing.

use crate::clock::Clock;
use crate::program::Wanted;
use crate::protection::Protection;
use crate::world::{BOTH, Move, PERMITS, Setup, Topology, World};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// What callers do, in this order; what may go wrong, and how many times.
struct Small {
    setup: Setup,
    /// What callers did before, without faults.
    before: Vec<Move>,
    script: Vec<Move>,
    faults: usize,
    moves: usize,
    /// What may go wrong. Empty: the default faults, mostly of the network.
    troubles: Vec<Move>,
}

impl Small {
    fn new(title: &str, script: Vec<Move>, faults: usize, moves: usize) -> Self {
        Self { setup: Setup::simple(title), before: Vec::new(), script, faults, moves, troubles: Vec::new() }
    }
}

fn acquire(wanted: Wanted) -> Move {
    Move::Acquire { program: 0, wanted }
}

fn wants(key: usize) -> Wanted {
    Wanted { lease: Duration::from_millis(700), ..Wanted::of(key) }
}

/// The next moves, and whether each is a fault.
fn next(world: &World, small: &Small, faults: usize) -> Vec<(Move, bool)> {
    let done = world.taken().filter(|taken| small.script.contains(taken)).count();
    let mut moves: Vec<_> = world.possible().into_iter().map(|it| (it, false)).collect();
    moves.extend(small.script.get(done).filter(|it| world.can(it)).map(|it| (it.clone(), false)));
    if faults < small.faults {
        moves.extend(small.troubles.iter().map(|it| (it.clone(), true)));
    }
    if !small.troubles.is_empty() {
        moves.push((Move::Waits(TICK), false));
        return moves;
    }
    moves.push((Move::Passes, false));
    if faults < small.faults {
        for wire in world.open() {
            moves.push((Move::Breaks { wire, arrives: false }, true));
            moves.push((Move::IsCut(wire), true));
        }
        moves.push((Move::Deletes(0), true));
        moves.push((Move::Restarts { server: 0, keeps: false }, true));
        moves.push((Move::Stalls { program: 0, time: Duration::from_millis(3_100) }, true));
        moves.extend(world.opening().into_iter().map(|wire| (Move::IsRefused(wire), true)));
        if world.programs.len() > 1 {
            moves.push((Move::Dies { program: 0, arrives: true }, true));
        }
    }
    moves.extend(world.cut().into_iter().map(|wire| (Move::IsNoticed(wire), false)));
    moves
}

fn replayed(small: &Small, history: &[(Move, bool)]) -> World {
    let mut world = World::new(&small.setup);
    for taken in &small.before {
        world.take(taken.clone());
        world.is_quiet();
    }
    history.iter().for_each(|(taken, _)| world.take(taken.clone()));
    world
}

fn state(world: &World, faults: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (world.seen(), faults).hash(&mut hasher);
    hasher.finish()
}

fn explore(small: &Small) {
    let more: usize = std::env::var("EXPLORE_MOVES").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut seen = HashSet::new();
    let mut frontier: Vec<Vec<(Move, bool)>> = vec![Vec::new()];
    for _ in 0..small.moves + more {
        let mut longer = Vec::new();
        for history in frontier {
            let faults = history.iter().filter(|(_, is_fault)| *is_fault).count();
            for taken in next(&replayed(small, &history), small, faults) {
                let faults = faults + usize::from(taken.1);
                let history: Vec<_> = history.iter().cloned().chain([taken]).collect();
                let mut world = replayed(small, &history);
                if seen.insert(state(&world, faults)) {
                    world.comes_to_rest();
                    longer.push(history);
                }
            }
        }
        frontier = longer;
    }
    println!("{}: {} states, {} of them at the end", small.setup.title, seen.len(), frontier.len());
}

fn release(guard: u64) -> Move {
    Move::Release { program: 0, guard, is_awaited: true }
}

/// Two attempts want one lock; the first one releases it.
#[test]
fn one_after_the_other() {
    let script = vec![acquire(wants(0)), acquire(Wanted { fenced: true, ..wants(0) }), release(1)];
    explore(&Small::new("one after the other", script, 1, 6));
}

/// The waiter goes away.
#[test]
fn a_wait_that_is_abandoned() {
    let script = vec![acquire(wants(0)), acquire(wants(0)), Move::Abandon { program: 0, attempt: 2 }, release(1)];
    explore(&Small::new("a wait that is abandoned", script, 0, 8));
}

/// The caller goes away before it is answered.
#[test]
fn a_try_that_is_abandoned() {
    let script = vec![acquire(wants(0)), Move::Abandon { program: 0, attempt: 1 }, Move::Settle(0)];
    explore(&Small::new("a try that is abandoned", script, 2, 5));
}

/// One guard is dropped and one is released, of fixed leases.
#[test]
fn fixed_leases() {
    let fixed = Wanted { is_kept: false, ..wants(0) };
    let script = vec![
        acquire(fixed.clone()),
        Move::Release { program: 0, guard: 1, is_awaited: false },
        acquire(Wanted { within: Some(Duration::ZERO), ..fixed }),
        release(2),
    ];
    explore(&Small::new("fixed leases", script, 1, 6));
}

/// Two guards of one owner.
#[test]
fn guards_of_one_owner() {
    let owned = Wanted { owner: Some(1), ..wants(0) };
    let longer = Wanted { lease: Duration::from_secs(2), ..owned.clone() };
    let script = vec![acquire(owned), acquire(longer), release(1), release(2)];
    explore(&Small::new("guards of one owner", script, 0, 9));
}

/// Both locks at once, while one has another holder.
#[test]
fn both_locks_at_once() {
    let script = vec![acquire(wants(1)), acquire(wants(BOTH)), release(1), Move::Abandon { program: 0, attempt: 2 }];
    explore(&Small::new("both locks at once", script, 0, 10));
    let script = vec![acquire(Wanted { fenced: true, ..wants(BOTH) }), acquire(wants(0)), release(1)];
    explore(&Small::new("both locks before one", script, 1, 6));
}

/// Three want one of two permits.
#[test]
fn two_permits() {
    let script = vec![
        acquire(wants(PERMITS)),
        acquire(wants(PERMITS)),
        acquire(wants(PERMITS)),
        Move::Abandon { program: 0, attempt: 3 },
        release(1),
    ];
    explore(&Small::new("two permits", script, 0, 9));
}

/// One program leads and another waits for its answer. Either the answer comes, or there is none and the other one leads.
#[test]
fn an_answer_for_two_programs() {
    let once = |program| Move::Acquire { program, wanted: Wanted { once: true, ..wants(0) } };
    let answer = |program, guard| Move::Answer { program, guard, keep: TICK };
    let of_two = |title, script, faults, moves| {
        let mut small = Small { before: vec![once(0), once(1)], ..Small::new(title, script, faults, moves) };
        small.setup.programs.push(Clock::default());
        small
    };
    let tries = Move::Acquire { program: 0, wanted: Wanted { once: true, within: Some(Duration::ZERO), ..wants(0) } };
    explore(&of_two("an answer for two programs", vec![answer(0, 1), tries.clone()], 0, 9));
    explore(&of_two("an answer of the second one", vec![release(1), answer(1, 2), tries], 0, 9));
    explore(&of_two("an answer and a fault", vec![answer(0, 1), answer(1, 2)], 1, 5));
}

/// How long a turn of a failover takes.
const TICK: Duration = Duration::from_millis(500);

/// Two programs want one lock while the master is cut off, replaced, and comes back, with the tightest times.
fn failover(title: &str) -> Small {
    let fixed = Wanted { is_kept: false, lease: TICK * 2, within: Some(Duration::ZERO), ..Wanted::of(0) };
    let acquire = |program| Move::Acquire { program, wanted: fixed.clone() };
    let protection = Protection { grace: TICK * 2, lag: Some(Duration::ZERO), failover: TICK * 2, ..Protection::WHOLE };
    let mut setup = Setup { topology: Topology::Sentinels, protection, ..Setup::simple(title) };
    setup.programs.push(Clock::default());
    let troubles = vec![Move::IsCutOff(0), Move::IsPromoted(1), Move::Joins(0), Move::Follows(0)];
    Small { setup, troubles, ..Small::new(title, vec![acquire(0), acquire(1)], 3, 11) }
}

#[test]
fn a_failover() {
    explore(&failover("a failover"));
}

/// Broken on purpose.
#[test]
#[should_panic(expected = "has two holders")]
fn a_failover_without_a_grace() {
    let mut small = failover("a failover without a grace");
    (small.setup.protection.grace, small.moves) = (Duration::ZERO, 13);
    explore(&small);
}

#[test]
#[should_panic(expected = "has two holders")]
fn a_failover_from_a_master_that_goes_on() {
    let mut small = failover("a failover from a master that goes on");
    (small.setup.protection.lag, small.moves) = (None, 13);
    explore(&small);
}
