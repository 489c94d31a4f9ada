//! A round's faults by its seed: which fault begins when.

use super::{Fault, Kind, clients, cluster, failovers, keys, networks, processes, replicated, sentinel, servers};
use crate::worlds::{Play, Stage, WorldKind};
use rlock_testing::Random;
use std::time::Duration;

/// Clients start undisturbed, and end with undisturbed locks.
const QUIET_AT_FIRST: Duration = Duration::from_millis(1_000);
const QUIET_AT_LAST: Duration = Duration::from_millis(1_000);

/// From one fault to the next. Now and then there is a longer peace, in which all promises hold again.
const PAUSES_MS: (u64, u64) = (30, 400);
const PEACE_MS: (u64, u64) = (1_500, 4_000);
const PEACE_IN_A_HUNDRED: u8 = 6;

const EVERYWHERE: [&[Kind]; 5] = [processes::KINDS, servers::KINDS, clients::KINDS, keys::KINDS, networks::KINDS];

fn of_its_own(kind: WorldKind) -> &'static [Kind] {
    match kind {
        WorldKind::Single | WorldKind::Durable => &[keys::SWAP, servers::KILL],
        WorldKind::Replicated => replicated::KINDS,
        WorldKind::Sentinel => sentinel::KINDS,
        WorldKind::Cluster => cluster::KINDS,
    }
}

/// The kinds of faults of a stage.
pub fn possible(Stage { kind, play }: Stage) -> Vec<Kind> {
    match play {
        Play::Everything => EVERYWHERE.into_iter().chain([of_its_own(kind)]).flatten().copied().collect(),
        Play::Unprotected | Play::Protected => [failovers::CONCURRENT, &failovers::kinds(kind)].concat(),
    }
}

/// The faults of a round, in order of when they begin.
pub fn schedule(stage: Stage, random: &mut Random, length: Duration) -> Vec<(Duration, Fault)> {
    if let Some(each) = stage.play.each_failover() {
        return only_failovers(stage.kind, each, random, length);
    }
    let kinds = possible(stage);
    let mut faults = Vec::new();
    let mut at = QUIET_AT_FIRST;
    while at + QUIET_AT_LAST < length {
        faults.push((at, any(&kinds, random)));
        let pause = if random.is(PEACE_IN_A_HUNDRED) { PEACE_MS } else { PAUSES_MS };
        at += Duration::from_millis(random.between(pause));
    }
    faults
}

/// Failovers in turn, and some faults of clients.
fn only_failovers(kind: WorldKind, each: Duration, random: &mut Random, length: Duration) -> Vec<(Duration, Fault)> {
    let kinds = failovers::kinds(kind);
    let mut faults = Vec::new();
    let mut at = QUIET_AT_FIRST;
    while at + each <= length + QUIET_AT_FIRST {
        faults.push((at, any(&kinds, random)));
        faults.push((at + Duration::from_millis(random.between(PEACE_MS)), any(failovers::CONCURRENT, random)));
        at += each;
    }
    faults
}

fn any(kinds: &[Kind], random: &mut Random) -> Fault {
    let all: u32 = kinds.iter().map(|kind| kind.weight).sum();
    let mut drawn = random.below(all.into());
    for kind in kinds {
        match drawn.checked_sub(kind.weight.into()) {
            Some(rest) => drawn = rest,
            None => return one(*kind, random),
        }
    }
    unreachable!("what is drawn is below the sum of all")
}

pub fn one(kind: Kind, random: &mut Random) -> Fault {
    Fault { kind, lasts: Duration::from_millis(random.between(kind.lasts)), seed: random.draw() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_seed_makes_the_same_round_and_every_fault_happens() {
        for kind in WorldKind::ALL {
            let stage = Stage { kind, play: Play::Everything };
            let of = |seed| schedule(stage, &mut Random::from(seed), Duration::from_secs(3_000));
            let round = |seed| {
                let faults = of(seed).into_iter();
                faults.map(|(at, it)| (at, it.kind.name, it.lasts, it.seed)).collect::<Vec<_>>()
            };
            assert_eq!(round(1), round(1));
            assert_ne!(round(1), round(2));
            let round = of(1);
            for possible in possible(stage) {
                assert!(round.iter().any(|(_, it)| it.kind.name == possible.name), "{} never comes", possible.name);
            }
        }
    }

    #[test]
    fn where_failovers_are_played_alone_each_round_begins_with_one() {
        for stage in Stage::by_name("failovers") {
            let round = |seed| schedule(stage, &mut Random::from(seed), stage.play.round().0);
            let first: HashSet<_> = (0..100).map(|seed| round(seed)[0].1.kind.name).collect();
            assert_eq!(first, failovers::kinds(stage.kind).iter().map(|kind| kind.name).collect());
        }
    }
}
