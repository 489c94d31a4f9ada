//! Random histories: what programs, the network and the servers may do, in any order. Each is led again by its seed; one
//! that fails is shortened to the moves that it needs.

use crate::clock::{Clock, DRIFT_MAX};
use crate::program::Wanted;
use crate::protection::Protection;
use crate::server::Health;
use crate::world::{BOTH, LONG_TURN, Move, PERMITS, READ, Setup, Topology, WRITE, World, names};
use rlock_testing::Random;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

/// A kind of histories.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub name: &'static str,
    pub programs: usize,
    pub servers: usize,
    /// How many of a hundred moves are faults of the network and of clients' locks.
    pub faults: u8,
    /// How many of a hundred moves are faults of servers.
    pub server_faults: u8,
    /// Programs stall for as long as leases last.
    pub stalls: bool,
    pub owners: bool,
    /// Requests may arrive after their connection is gone.
    pub late: bool,
    pub topology: Topology,
    pub protection: Protection,
    pub callers_lanes: bool,
    /// How many of a hundred locks are confirmed by a replica.
    pub confirmed: u8,
    /// How many of a hundred requests for a single lock ask for the answer under it. If not 0, programs may die.
    pub once: u8,
    /// Permits, read-write locks and several locks at once, as well as single ones.
    pub kinds: bool,
    /// Clocks that go wrong within the bounds.
    pub clocks: bool,
    pub moves: u64,
    pub leases_ms: &'static [u64],
}

pub const CALM: Style = Style {
    name: "calm",
    programs: 1,
    servers: 2,
    faults: 0,
    server_faults: 0,
    stalls: false,
    owners: false,
    late: false,
    topology: Topology::Single,
    protection: Protection::NONE,
    callers_lanes: false,
    confirmed: 0,
    once: 0,
    kinds: false,
    clocks: false,
    moves: 80,
    leases_ms: &[700, 2_000, 6_000],
};
pub const ROUGH: Style =
    Style { name: "rough", faults: 12, stalls: true, late: true, callers_lanes: true, clocks: true, ..CALM };

pub fn setup(style: Style, seed: u64, random: &mut Random) -> Setup {
    let drift = |random: &mut Random| match style.clocks {
        true => i32::try_from(random.below(2 * DRIFT_MAX as u64 + 1)).expect("small") - DRIFT_MAX,
        false => 0,
    };
    let clock = |random: &mut Random| Clock { drift: drift(random), offset_ms: 0 };
    let programs = (0..style.programs).map(|_| clock(random)).collect();
    let servers = (0..style.servers).map(|_| {
        let offset_ms = if style.clocks { i64::try_from(random.below(800)).expect("small") - 400 } else { 0 };
        Clock { offset_ms, ..clock(random) }
    });
    let servers = servers.collect();
    Setup {
        title: format!("{}, seed {seed}", style.name),
        topology: style.topology,
        protection: style.protection,
        programs,
        servers,
        late_arrives: style.late || style.faults == 0,
        turn_s: random.between((1, 10)),
        // Short turns, so that answers are given in slices.
        turn: if style.once > 0 { 3 } else { LONG_TURN },
    }
}

/// A history that has broken a promise.
struct Broken {
    setup: Setup,
    moves: Vec<Move>,
    why: String,
}

/// Leads the history of a seed, and returns how many steps its clients took.
fn lead(style: Style, seed: u64) -> Result<u64, Box<Broken>> {
    let mut random = Random::from(seed);
    let setup = setup(style, seed, &mut random);
    let mut moves = Vec::new();
    let led = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(&setup);
        world.prints_account = false;
        for _ in 0..style.moves {
            let next = draw(&world, style, &mut random);
            moves.push(next.clone());
            world.take(next);
        }
        ends(&mut world, style);
        world.steps
    }));
    led.map_err(|why| {
        let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
        Box::new(Broken { setup, moves, why })
    })
}

fn ends(world: &mut World, style: Style) {
    world.comes_to_rest();
    let live: Vec<_> = world.programs.iter().filter(|it| !it.is_dead).map(|it| it.number).collect();
    live.into_iter().for_each(|program| world.is_served(program));
    if style.faults == 0 && style.server_faults == 0 && !style.owners && !style.callers_lanes {
        is_in_order(world);
    }
}

fn replay(setup: &Setup, style: Style, moves: &[Move], prints_account: bool) {
    let mut world = World::new(setup);
    world.prints_account = prints_account;
    moves.iter().for_each(|taken| world.take(taken.clone()));
    ends(&mut world, style);
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs this without printing panics of this thread.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                hook(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = run();
    IS_QUIET.set(false);
    result
}

impl Broken {
    /// Leaves out all moves that the failure does not need.
    fn shortened(&self, style: Style) -> Vec<Move> {
        let mut moves = self.moves.clone();
        let fails = |moves: &[Move]| {
            panic::catch_unwind(AssertUnwindSafe(|| replay(&self.setup, style, moves, false))).is_err()
        };
        let mut size = moves.len().div_ceil(2);
        let until = Instant::now() + Duration::from_secs(20);
        while size > 0 && Instant::now() < until {
            let mut place = 0;
            while place < moves.len() {
                let end = (place + size).min(moves.len());
                let fewer: Vec<_> = moves[..place].iter().chain(&moves[end..]).cloned().collect();
                if fails(&fewer) { moves = fewer } else { place = end }
            }
            size /= 2;
        }
        moves
    }
}

/// Waiters are granted a lock in the order in which they joined its queue, as far as callers of one program can tell.
fn is_in_order(world: &World) {
    for program in &world.programs {
        for what in 0..names(BOTH).len() + 2 {
            // Of two permits the first may be renewed or confirmed before it is its caller's.
            if what == PERMITS {
                continue;
            }
            let key = names(what).join("+");
            let joined: Vec<_> = world.servers[0].joined.iter().filter(|it| it.0 == key).map(|it| &it.1).collect();
            // A waiter that timed out by a server's fast clock joins again.
            let is_once = |holder: &String| joined.iter().filter(|it| **it == holder).count() == 1;
            let place = |holder: &String| joined.iter().position(|it| *it == holder).filter(|_| is_once(holder));
            let granted = program.granted.iter().filter(|it| it.0 == key);
            let granted: Vec<_> = granted.filter_map(|it| Some((place(&it.1)?, it.1.len(), &it.1))).collect();
            assert!(granted.is_sorted(), "{key} is granted out of order: {granted:?}");
            // Holders are numbered in the order in which they were wanted.
            let is_later = |pair: &[(usize, usize, &String)]| (pair[0].1, pair[0].2) < (pair[1].1, pair[1].2);
            assert!(granted.windows(2).all(is_later), "{key} is waited for out of order: {granted:?}");
        }
    }
}

pub fn draw(world: &World, style: Style, random: &mut Random) -> Move {
    let possible = world.possible();
    if random.is(style.server_faults) {
        if let Some(fault) = fault_of_servers(world, style, random) {
            return fault;
        }
    }
    if random.is(style.faults) {
        if let Some(fault) = fault(world, style, random) {
            return fault;
        }
    }
    match random.below(100) {
        0..60 if !possible.is_empty() => match random.one_of(&possible) {
            Move::Answers(wire) if random.is(10) => Move::AnswersInPieces(wire, random.below(100)),
            next => next,
        },
        0..85 => caller(world, style, random).unwrap_or_else(|| time(world, style, random)),
        _ => time(world, style, random),
    }
}

fn time(world: &World, style: Style, random: &mut Random) -> Move {
    let is_calm = style.faults == 0 && style.server_faults == 0;
    let is_under_way = !world.possible().is_empty();
    let ms = |random: &mut Random, most: u64| Duration::from_micros(random.below(most * 1_000));
    let program = usize::try_from(random.below(world.programs.len() as u64)).expect("few");
    match random.below(10) {
        _ if is_calm && is_under_way => Move::Waits(ms(random, 4)),
        _ if is_calm => Move::Passes,
        0..4 => Move::Passes,
        4..7 => Move::Waits(ms(random, 100)),
        7 => Move::Waits(ms(random, 1_500)),
        8 => Move::Stalls { program, time: ms(random, 100) },
        _ if style.stalls => Move::Stalls { program, time: ms(random, 9_000) },
        _ => Move::Passes,
    }
}

fn caller(world: &World, style: Style, random: &mut Random) -> Option<Move> {
    let programs = world.programs.len() as u64;
    // For a while most callers are of one program: the others come back to servers from which they have heard nothing for long.
    let active = if random.is(80) { world.at.as_secs() / world.turn_s } else { random.below(programs) };
    let program = usize::try_from(active % programs).expect("few");
    if world.is_stalled(program) {
        return None;
    }
    let it = &world.programs[program];
    let guards: Vec<_> = it.guards.keys().copied().collect();
    let attempts: Vec<_> = it.attempts.keys().copied().collect();
    match random.below(20) {
        0..10 if attempts.len() < 6 => Some(Move::Acquire { program, wanted: wanted(style, random) }),
        10..16 if !guards.is_empty() => {
            let guard = random.one_of(&guards);
            if it.guards[&guard].is_lead && random.is(70) {
                let keep = Duration::from_millis(random.one_of(&[1, 50, 700, 5_000]));
                return Some(Move::Answer { program, guard, keep });
            }
            Some(Move::Release { program, guard, is_awaited: random.is(70) })
        }
        16..18 if !attempts.is_empty() => Some(Move::Abandon { program, attempt: random.one_of(&attempts) }),
        18 if random.is(30) => Some(Move::Settle(program)),
        _ => None,
    }
}

fn wanted(style: Style, random: &mut Random) -> Wanted {
    let within = match random.below(6) {
        0 => Some(Duration::ZERO),
        1 => Some(Duration::from_millis(random.between((1, 50)))),
        2 => Some(Duration::from_millis(random.between((50, 8_000)))),
        _ => None,
    };
    let what = if style.kinds && random.is(60) {
        random.one_of(&[PERMITS, BOTH, READ, WRITE])
    } else {
        usize::from(random.is(25))
    };
    let wanted = Wanted {
        what,
        owner: (style.owners && what < PERMITS && random.is(70)).then(|| random.below(2)),
        lease: Duration::from_millis(random.one_of(style.leases_ms)),
        is_kept: random.is(75),
        within,
        fenced: random.is(30),
        callers_lane: style.callers_lanes && random.is(40),
        confirmed: random.is(style.confirmed),
        once: false,
    };
    if style.once == 0 || what >= PERMITS || !random.is(style.once) {
        return wanted;
    }
    // The clients ask for an answer with these terms.
    Wanted { once: true, owner: None, is_kept: true, fenced: false, confirmed: false, ..wanted }
}

fn fault(world: &World, style: Style, random: &mut Random) -> Option<Move> {
    let one_of = |all: Vec<crate::world::Wire>, random: &mut Random| (!all.is_empty()).then(|| random.one_of(&all));
    let server = world.master;
    match random.below(16) {
        0..3 => {
            let wire = one_of(world.open(), random)?;
            Some(Move::Breaks { wire, arrives: style.late && random.is(50) })
        }
        3..5 => one_of(world.open(), random).map(Move::IsCut),
        5..7 => one_of(world.cut(), random).map(Move::IsNoticed),
        7..9 => one_of(world.late(), random).map(|wire| Move::Late { wire, arrives: random.is(80) }),
        9 => one_of(world.opening(), random).map(Move::IsRefused),
        10 if style.once > 0 && random.is(50) => Some(Move::Forgets(usize::from(random.is(25)))),
        10 if style.kinds => Some(Move::Deletes(usize::try_from(random.below(4)).expect("few"))),
        10 => Some(Move::Deletes(usize::from(random.is(25)))),
        11 if random.is(30) => Some(Move::EndsSessions(server)),
        11 if style.server_faults == 0 && random.is(60) => Some(Move::Restarts { server, keeps: false }),
        12 => {
            let line = random.one_of(&["LOADING still", "OOM no memory", "READONLY a replica"]);
            Some(Move::Refuses { server, line: Some(line) })
        }
        13 | 14 if world.servers[server].refuses.is_some() => Some(Move::Refuses { server, line: None }),
        14 if style.once > 0 && random.is(25) => {
            let live: Vec<_> = world.programs.iter().filter(|it| !it.is_dead).map(|it| it.number).collect();
            let program = random.one_of(&live);
            (live.len() > 1).then_some(Move::Dies { program, arrives: style.late && random.is(50) })
        }
        15 if style.confirmed > 0 && style.server_faults == 0 => match world.stalled_replicas.contains(&1) {
            true => Some(Move::ReplicaGoesOn(1)),
            false => Some(Move::ReplicaStalls(1)),
        },
        15 if style.topology != Topology::Single => {
            Some(Move::LearnsNothing(usize::try_from(random.below(world.programs.len() as u64)).expect("few")))
        }
        _ => None,
    }
}

/// Mostly the next act of a failover: the master is harmed, replaced, and comes back.
fn fault_of_servers(world: &World, style: Style, random: &mut Random) -> Option<Move> {
    let some = usize::try_from(random.below(world.servers.len() as u64)).expect("few");
    if random.is(25) {
        return match random.below(3) {
            0 => (!world.servers[some].is_master()).then_some(Move::ReplicaStalls(some)),
            1 => world.stalled_replicas.contains(&some).then_some(Move::ReplicaGoesOn(some)),
            _ => harmed(world, some, random),
        };
    }
    if world.can_promote(some) && random.is(70) {
        return Some(Move::IsPromoted(some));
    }
    if world.topology == Topology::Single && world.named != world.master && random.is(30) {
        return Some(Move::NameMoves);
    }
    let former = (0..world.servers.len()).find(|it| *it != world.master && world.servers[*it].is_master());
    let waits = |random: &mut Random, most| Some(Move::Waits(Duration::from_millis(random.between((300, most)))));
    if let Some(former) = former {
        // Only a new connection finds where the one name leads now.
        let wires = if world.topology == Topology::Single { world.open_to(former) } else { Vec::new() };
        if !wires.is_empty() && random.is(30) {
            return Some(Move::Breaks { wire: random.one_of(&wires), arrives: style.late && random.is(50) });
        }
        return match random.below(4) {
            0 | 1 => waits(random, 4_000),
            _ if !is_well(world, former) => healed(world, former, style, random),
            2 => Some(Move::Follows(former)),
            _ => None,
        };
    }
    if is_well(world, world.master) {
        return if random.is(40) { harmed(world, world.master, random) } else { waits(random, 2_000) };
    }
    if random.is(30) { healed(world, world.master, style, random) } else { waits(random, 3_000) }
}

fn is_well(world: &World, server: usize) -> bool {
    world.servers[server].health == Health::Up && !world.servers[server].is_cut_off
}

fn harmed(world: &World, server: usize, random: &mut Random) -> Option<Move> {
    let it = &world.servers[server];
    let harm = random.one_of(&[Move::IsKilled(server), Move::IsSuspended(server), Move::IsCutOff(server)]);
    (it.health == Health::Up).then_some(harm)
}

fn healed(world: &World, server: usize, style: Style, random: &mut Random) -> Option<Move> {
    let it = &world.servers[server];
    match it.health {
        // What a replica has confirmed is lost if both start without data.
        Health::Down => Some(Move::Restarts { server, keeps: style.confirmed > 0 || random.is(50) }),
        Health::Suspended => Some(Move::Resumes(server)),
        Health::Up => it.is_cut_off.then_some(Move::Joins(server)),
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `HISTORY_SEED` repeats the history of one seed, `HISTORIES` multiplies the number of histories.
pub fn many(style: Style, seeds: u64) {
    let (first, seeds) = match from_environment("HISTORY_SEED") {
        Some(seed) => (seed, 1),
        None => (0, seeds * from_environment("HISTORIES").unwrap_or(1)),
    };
    let (began, mut steps) = (Instant::now(), 0);
    for seed in first..first + seeds {
        match quietly(|| lead(style, seed)) {
            Ok(taken) => steps += taken,
            Err(broken) => {
                let needed = quietly(|| broken.shortened(style));
                println!("{}: fails by {} moves", broken.setup.title, needed.len());
                replay(&broken.setup, style, &needed, true);
                panic!("{} fails, and its shorter form does not: that is a defect of the test", broken.setup.title);
            }
        }
    }
    println!("{}: {seeds} histories, {steps} steps of clients, {:.1?}", style.name, began.elapsed());
}

/// Something is wrong with these histories on purpose: one of these seeds must break one of these promises.
pub fn one_breaks(style: Style, promises: &[&str], mut seeds: Range<u64>) {
    let broken = quietly(|| seeds.find_map(|seed| Some((seed, lead(style, seed).err()?))));
    let (seed, broken) = broken.unwrap_or_else(|| panic!("{}: no history breaks a promise", style.name));
    let needed = quietly(|| broken.shortened(style));
    if !promises.iter().any(|promise| broken.why.contains(promise)) {
        replay(&broken.setup, style, &needed, true);
    }
    println!("{}: seed {seed} breaks a promise, by {} moves: {}", style.name, needed.len(), broken.why);
    for taken in needed {
        println!("    {taken:?}");
    }
}

#[test]
fn calm_histories() {
    many(CALM, 300);
    many(Style { name: "calm, three programs", programs: 3, moves: 160, ..CALM }, 100);
}

#[test]
fn calm_histories_over_callers_lanes() {
    many(Style { name: "calm, by lanes", callers_lanes: true, ..CALM }, 200);
}

#[test]
fn calm_histories_of_owners() {
    many(Style { name: "calm, owners", owners: true, ..CALM }, 300);
}

#[test]
fn calm_histories_of_confirmed_locks() {
    many(Style { name: "calm, confirmed", confirmed: 70, ..CALM }, 300);
}

#[test]
fn calm_histories_of_all_kinds() {
    many(Style { name: "calm, kinds", kinds: true, ..CALM }, 300);
    many(Style { name: "calm, kinds, confirmed", kinds: true, confirmed: 70, ..CALM }, 300);
}

#[test]
fn rough_histories() {
    many(ROUGH, 800);
    many(Style { name: "rough, three programs", programs: 3, moves: 160, ..ROUGH }, 200);
}

#[test]
fn rough_histories_of_owners() {
    many(Style { name: "rough, owners", owners: true, late: false, ..ROUGH }, 600);
}

#[test]
fn rough_histories_of_all_kinds() {
    let kinds = Style { name: "rough, kinds", kinds: true, ..ROUGH };
    many(kinds, 600);
    many(Style { name: "rough, kinds, owners", owners: true, late: false, ..kinds }, 300);
    many(Style { name: "rough, kinds, confirmed", confirmed: 70, ..kinds }, 300);
}

#[test]
fn rough_histories_of_confirmed_locks() {
    many(Style { name: "confirmed", confirmed: 70, ..ROUGH }, 600);
    many(Style { name: "confirmed, owners", confirmed: 70, owners: true, late: false, ..ROUGH }, 600);
}

#[test]
fn calm_histories_of_answers() {
    many(Style { name: "calm, once", programs: 2, once: 70, ..CALM }, 200);
}

#[test]
fn rough_histories_of_answers() {
    many(Style { name: "rough, once", programs: 3, once: 70, moves: 120, ..ROUGH }, 400);
    let masters = |topology| Style { programs: 3, once: 70, ..two_masters(topology) };
    many(Style { name: "two masters, once", ..masters(Topology::Sentinels) }, 150);
    many(Style { name: "two masters of a cluster, once", ..masters(Topology::Cluster) }, 150);
    many(Style { name: "two masters, one name, once", ..masters(Topology::Single) }, 150);
}

fn two_masters(topology: Topology) -> Style {
    Style { name: "two masters", topology, server_faults: 8, moves: 120, ..ROUGH }
}

#[test]
fn rough_histories_with_two_masters() {
    many(two_masters(Topology::Sentinels), 400);
    many(Style { name: "two masters of a cluster", ..two_masters(Topology::Cluster) }, 400);
    many(Style { name: "two masters, one name", ..two_masters(Topology::Single) }, 200);
    let kinds = Style { name: "two masters, kinds", kinds: true, programs: 2, ..two_masters(Topology::Sentinels) };
    many(kinds, 200);
    many(Style { name: "two masters, confirmed", confirmed: 70, ..two_masters(Topology::Sentinels) }, 400);
}
