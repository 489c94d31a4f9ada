//! Random histories: what a program, the network and the servers may do, in any order. Each can be had again by its seed.

use super::world::{BOTH, Move, PERMITS, Wanted, World, names};
use rlock_testing::Random;
use std::time::Duration;

/// What kind of histories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// So many faults in a hundred moves.
    faults: u8,
    /// The program stands still for as long as leases last.
    stalls: bool,
    owners: bool,
    /// Requests may arrive after their connection is gone.
    late: bool,
    sentinels: bool,
    callers_lanes: bool,
    confirmed: bool,
    /// Permits and several locks at once, beside single ones.
    kinds: bool,
}

const CALM: Style = Style {
    faults: 0,
    stalls: false,
    owners: false,
    late: false,
    sentinels: false,
    callers_lanes: false,
    confirmed: false,
    kinds: false,
};
const ROUGH: Style = Style { faults: 12, stalls: true, late: true, callers_lanes: true, ..CALM };

const MOVES: u64 = 80;

pub fn lead(style: Style, name: &str, seed: u64) {
    let mut random = Random::from(seed);
    let mut world = World::new(format!("{name}, seed {seed}"), style.sentinels);
    world.late_arrives = style.late || style.faults == 0;
    for _ in 0..MOVES {
        let next = draw(&world, style, &mut random);
        world.take(next);
    }
    world.comes_to_rest();
    if style.faults == 0 && !style.owners && !style.callers_lanes {
        is_in_order(&world);
    }
}

/// Those who queue do so in the order in which they came.
fn is_in_order(world: &World) {
    for key in 0..=BOTH {
        // Of two permits the first may be renewed or confirmed before it is its caller's, and the second be that before.
        let is_told_in_order = key != PERMITS;
        let key = names(key).join("+");
        let number = |holder: &str| holder.rsplit('-').next().and_then(|it| it.parse().ok()).unwrap_or(0_u64);
        let queued: Vec<_> =
            world.servers[0].deeds.queued.iter().filter(|it| it.0 == key).map(|it| number(&it.1)).collect();
        // Whom a server, whose clock was ahead, has told that his time was over, asks once more.
        let is_once = |it: &u64| queued.iter().filter(|other| *other == it).count() == 1;
        let queued: Vec<_> = queued.iter().copied().filter(is_once).collect();
        assert!(queued.is_sorted(), "{queued:?}");
        let granted = world.granted.iter().filter(|it| it.0 == key).map(|it| number(&it.1));
        let granted: Vec<_> = granted.filter(|it| queued.contains(it)).collect();
        assert!(granted.is_sorted() || !is_told_in_order, "{granted:?}");
    }
}

fn draw(world: &World, style: Style, random: &mut Random) -> Move {
    let possible = world.possible();
    if random.is(style.faults) {
        if let Some(fault) = fault(world, style, random) {
            return fault;
        }
    }
    match random.below(100) {
        0..60 if !possible.is_empty() => match random.one_of(&possible) {
            Move::Answers(line) if random.is(10) => Move::AnswersInPieces(line, random.below(100)),
            next => next,
        },
        0..85 => programs(world, style, random).unwrap_or_else(|| time(world, style, random)),
        _ => time(world, style, random),
    }
}

fn time(world: &World, style: Style, random: &mut Random) -> Move {
    let is_under_way = !world.possible().is_empty();
    let ms = |random: &mut Random, most: u64| Duration::from_micros(random.below(most * 1_000));
    match random.below(10) {
        _ if style.faults == 0 && is_under_way => Move::Waits(ms(random, 4)),
        _ if style.faults == 0 => Move::Passes,
        0..5 => Move::Passes,
        5..8 => Move::Waits(ms(random, 100)),
        8 => Move::Waits(ms(random, 1_500)),
        _ if style.stalls => Move::Waits(ms(random, 9_000)),
        _ => Move::Passes,
    }
}

fn programs(world: &World, style: Style, random: &mut Random) -> Option<Move> {
    let guards: Vec<_> = world.guards.keys().copied().collect();
    let attempts: Vec<_> = world.attempts.keys().copied().collect();
    match random.below(20) {
        0..10 if world.attempts.len() < 6 => {
            let within = match random.below(6) {
                0 => Some(Duration::ZERO),
                1 => Some(Duration::from_millis(random.between((1, 50)))),
                2 => Some(Duration::from_millis(random.between((50, 8_000)))),
                _ => None,
            };
            let key =
                if style.kinds && random.is(60) { random.one_of(&[PERMITS, BOTH]) } else { usize::from(random.is(25)) };
            Some(Move::Acquire(Wanted {
                key,
                owner: (style.owners && key < PERMITS && random.is(70)).then(|| random.below(2)),
                lease: Duration::from_millis(random.one_of(&[700, 2_000, 6_000])),
                is_kept: random.is(75),
                within,
                fenced: random.is(30),
                callers_lane: style.callers_lanes && random.is(40),
                confirmed: style.confirmed && random.is(70),
            }))
        }
        10..16 if !guards.is_empty() => Some(Move::Release { guard: random.one_of(&guards), is_told: random.is(70) }),
        16..18 if !attempts.is_empty() => Some(Move::Abandon(random.one_of(&attempts))),
        18 if random.is(30) => Some(Move::Settle),
        _ => None,
    }
}

fn fault(world: &World, style: Style, random: &mut Random) -> Option<Move> {
    let (lines, opening, cut, late) = (world.lines(), world.opening(), world.cut(), world.late());
    let one_of = |all: &[u64], random: &mut Random| (!all.is_empty()).then(|| random.one_of(all));
    let open: Vec<_> = lines.iter().copied().filter(|it| !opening.contains(it) && !cut.contains(it)).collect();
    match random.below(if style.confirmed { 18 } else { 16 }) {
        0..3 => one_of(&open, random).map(|line| Move::Breaks { line, arrives: style.late && random.is(50) }),
        3..5 => one_of(&open, random).map(Move::IsCut),
        5..7 => one_of(&cut, random).map(Move::IsNoticed),
        7..9 => one_of(&late, random).map(|connection| Move::Late { connection, arrives: random.is(80) }),
        9 => one_of(&opening, random).map(Move::IsRefused),
        10 if style.kinds => Some(Move::Deletes(random.one_of(&[0, 1, PERMITS]))),
        10 => Some(Move::Deletes(usize::from(random.is(25)))),
        11 => random.is(50).then_some(Move::Restarts),
        12 => Some(Move::Refuses(Some(random.one_of(&["LOADING still", "OOM no memory", "READONLY a replica"])))),
        13 | 14 if world.servers[world.master].refuses.is_some() => Some(Move::Refuses(None)),
        13 | 14 if style.sentinels => Some(Move::Learns),
        15 if style.sentinels => Some(match random.below(4) {
            0 => Move::LearnsNothing,
            _ => Move::FailsOver { has_all: random.is(50) },
        }),
        16 => Some(Move::ReplicaStandsStill),
        17 => Some(Move::ReplicaGoesOn),
        _ => None,
    }
}

fn many(style: Style, name: &str, seeds: u64) {
    let (first, seeds) = match std::env::var("HISTORY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed, 1),
        None => (0, std::env::var("HISTORIES").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(seeds)),
    };
    (first..first + seeds).for_each(|seed| lead(style, name, seed));
}

#[test]
fn calm_histories() {
    many(CALM, "calm", 300);
}

#[test]
fn calm_histories_over_callers_lanes() {
    many(Style { callers_lanes: true, ..CALM }, "calm, by lanes", 200);
}

#[test]
fn calm_histories_of_owners() {
    many(Style { owners: true, ..CALM }, "calm, owners", 300);
}

#[test]
fn rough_histories() {
    many(ROUGH, "rough", 800);
}

#[test]
fn rough_histories_of_owners() {
    let style = Style { owners: true, late: false, ..ROUGH };
    many(style, "rough, owners", 600);
    // A renewal that is answered for another hold of the same owner, when what was granted has ended.
    lead(Style { callers_lanes: false, ..style }, "rough, owners", 1_921);
    // A server that has forgotten the session says something else when it is asked for it.
    lead(style, "rough, owners", 1_257);
    // Requests of one owner that overtake each other.
    lead(style, "rough, owners", 1_614);
}

#[test]
fn rough_histories_with_two_masters() {
    many(Style { sentinels: true, ..ROUGH }, "two masters", 600);
}

/// A replica may stand still for any time, and then go on.
#[test]
fn rough_histories_of_confirmed_locks() {
    many(Style { confirmed: true, ..ROUGH }, "confirmed", 600);
    many(Style { confirmed: true, sentinels: true, ..ROUGH }, "confirmed, two masters", 600);
    let owners = Style { confirmed: true, owners: true, late: false, ..ROUGH };
    many(owners, "confirmed, owners", 600);
}

#[test]
fn calm_histories_of_confirmed_locks() {
    many(Style { confirmed: true, ..CALM }, "confirmed, calm", 300);
}

#[test]
fn calm_histories_of_permits_and_several_locks() {
    many(Style { kinds: true, ..CALM }, "calm, kinds", 300);
    many(Style { kinds: true, confirmed: true, ..CALM }, "calm, kinds, confirmed", 300);
}

#[test]
fn rough_histories_of_permits_and_several_locks() {
    let kinds = Style { kinds: true, ..ROUGH };
    many(kinds, "rough, kinds", 600);
    many(Style { sentinels: true, ..kinds }, "two masters, kinds", 300);
    many(Style { confirmed: true, ..kinds }, "confirmed, kinds", 300);
    many(Style { owners: true, late: false, ..kinds }, "rough, kinds, owners", 300);
}
