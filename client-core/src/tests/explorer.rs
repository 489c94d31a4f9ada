//! Every history of so many moves in a small world, where random ones may miss one: a program that does what a script says,
//! and a network in which anything may come before anything else, with a fault or two anywhere.
//!
//! Two histories after which everything that can be seen is the same are one from there on. What can be seen is the
//! servers, what is on its way, what callers have, and the sizes of the engine's tables and when it is next due: less than
//! all that the engine knows, so that a history may be left out that was another one.
//!
//! Each history, however long, then comes to rest, and must leave nothing.

use super::world::{BOTH, Move, PERMITS, Wanted, World};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// What a program does, in this order, and what may go wrong, so many times.
struct Small {
    name: &'static str,
    script: Vec<Move>,
    faults: usize,
    moves: usize,
}

fn wants(key: usize) -> Wanted {
    Wanted { lease: Duration::from_millis(700), ..Wanted::of(key) }
}

/// The next moves, and whether each is a fault.
fn next(world: &World, small: &Small, faults: usize) -> Vec<(Move, bool)> {
    let done = world.taken().filter(|taken| small.script.contains(taken)).count();
    let mut moves: Vec<_> = world.possible().into_iter().map(|it| (it, false)).collect();
    moves.extend(small.script.get(done).filter(|it| world.can(it)).map(|it| (it.clone(), false)));
    moves.push((Move::Passes, false));
    if faults < small.faults {
        for line in world.open() {
            moves.push((Move::Breaks { line, arrives: false }, true));
            moves.push((Move::IsCut(line), true));
        }
        moves.push((Move::Deletes(0), true));
        moves.push((Move::Restarts, true));
        moves.push((Move::Waits(Duration::from_millis(3_100)), true));
        moves.extend(world.opening().into_iter().map(|line| (Move::IsRefused(line), true)));
    }
    moves.extend(world.cut().into_iter().map(|line| (Move::IsNoticed(line), false)));
    moves
}

fn replayed(small: &Small, history: &[(Move, bool)]) -> World {
    let mut world = World::new(small.name, false);
    history.iter().for_each(|(taken, _)| world.take(taken.clone()));
    world
}

fn state(world: &World, faults: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (world.seen(), faults).hash(&mut hasher);
    hasher.finish()
}

fn explore(small: &Small) {
    let more = std::env::var("EXPLORE_MOVES").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
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
    println!("{}: {} states, {} of them at the end", small.name, seen.len(), frontier.len());
}

fn release(guard: u64) -> Move {
    Move::Release { guard, is_told: true }
}

/// Two want one lock; the first gives it back.
#[test]
fn one_after_the_other() {
    let script = vec![Move::Acquire(wants(0)), Move::Acquire(Wanted { fenced: true, ..wants(0) }), release(1)];
    explore(&Small { name: "one after the other", script, faults: 1, moves: 6 });
}

/// Who waits goes away.
#[test]
fn a_wait_that_is_abandoned() {
    let script = vec![Move::Acquire(wants(0)), Move::Acquire(wants(0)), Move::Abandon(2), release(1)];
    explore(&Small { name: "a wait that is abandoned", script, faults: 0, moves: 8 });
}

/// Who asks goes away before he is answered.
#[test]
fn a_try_that_is_abandoned() {
    let script = vec![Move::Acquire(wants(0)), Move::Abandon(1), Move::Settle];
    explore(&Small { name: "a try that is abandoned", script, faults: 2, moves: 5 });
}

/// A guard that is dropped, and one that is given back, of fixed leases.
#[test]
fn fixed_leases() {
    let fixed = Wanted { is_kept: false, ..wants(0) };
    let script = vec![
        Move::Acquire(fixed.clone()),
        Move::Release { guard: 1, is_told: false },
        Move::Acquire(Wanted { within: Some(Duration::ZERO), ..fixed }),
        release(2),
    ];
    explore(&Small { name: "fixed leases", script, faults: 1, moves: 6 });
}

/// Two guards of one owner.
#[test]
fn guards_of_one_owner() {
    let owned = Wanted { owner: Some(1), ..wants(0) };
    let longer = Wanted { lease: Duration::from_secs(2), ..owned.clone() };
    let script = vec![Move::Acquire(owned), Move::Acquire(longer), release(1), release(2)];
    explore(&Small { name: "guards of one owner", script, faults: 0, moves: 9 });
}

/// Both locks at once, of which another one has one.
#[test]
fn both_locks_at_once() {
    let script = vec![Move::Acquire(wants(1)), Move::Acquire(wants(BOTH)), release(1), Move::Abandon(2)];
    explore(&Small { name: "both locks at once", script, faults: 0, moves: 10 });
    let script = vec![Move::Acquire(Wanted { fenced: true, ..wants(BOTH) }), Move::Acquire(wants(0)), release(1)];
    explore(&Small { name: "both locks before one", script, faults: 1, moves: 6 });
}

/// Three want one of two permits.
#[test]
fn two_permits() {
    let script = vec![
        Move::Acquire(wants(PERMITS)),
        Move::Acquire(wants(PERMITS)),
        Move::Acquire(wants(PERMITS)),
        Move::Abandon(3),
        release(1),
    ];
    explore(&Small { name: "two permits", script, faults: 0, moves: 9 });
}
