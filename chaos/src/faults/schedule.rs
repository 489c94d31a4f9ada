//! What a seed makes of a round: which fault begins when.

use super::{Fault, What};
use crate::worlds::WorldKind;
use rlock_testing::Random;
use std::time::Duration;

/// Clients are left to begin in peace, and what they hold at the end is to be worth something.
const QUIET_AT_FIRST: Duration = Duration::from_millis(1_000);
const QUIET_AT_LAST: Duration = Duration::from_millis(1_000);

/// From one fault to the next. Now and then there is a longer peace, in which promises are whole again.
const PAUSES_MS: (u64, u64) = (30, 400);
const PEACE_MS: (u64, u64) = (1_500, 4_000);
const PEACE_IN_A_HUNDRED: u8 = 6;

/// A fault, how often it comes beside the others, and for how long it lasts, in ms.
type Line = (What, u32, (u64, u64));

const AT_ONCE: (u64, u64) = (0, 0);
const WHILE: (u64, u64) = (50, 800);

/// Much longer than clients wait for an answer, and than a poll waits in the server.
const LONG: (u64, u64) = (1_500, 6_000);

const EVERYWHERE: &[Line] = &[
    (What::FreezeCrew, 8, (100, 2_000)),
    (What::KillCrew, 1, AT_ONCE),
    (What::FreezeServer, 8, (50, 700)),
    (What::Pause { writes_only: true }, 8, (50, 600)),
    (What::Pause { writes_only: false }, 3, (50, 600)),
    (What::Sleep, 3, AT_ONCE),
    (What::BusyScript, 3, (50, 400)),
    (What::Save { aof: false }, 2, AT_ONCE),
    (What::Save { aof: true }, 2, AT_ONCE),
    (What::FullMemory, 8, WHILE),
    (What::MissingReplicas, 8, WHILE),
    (What::Hz, 2, (200, 2_000)),
    (What::KillWaitingClients, 8, AT_ONCE),
    (What::KillClients, 6, AT_ONCE),
    (What::KillAllClients, 2, AT_ONCE),
    (What::Unblock { error: false }, 6, AT_ONCE),
    (What::Unblock { error: true }, 6, AT_ONCE),
    (What::Delete, 8, AT_ONCE),
    (What::Unlink, 2, AT_ONCE),
    (What::Shorten, 4, AT_ONCE),
    (What::Persist, 3, (50, 400)),
    (What::RenameAway, 3, (50, 300)),
    (What::Overwrite, 3, (100, 150)),
    (What::Break, 4, AT_ONCE),
    (What::FlushAll { later: false }, 1, AT_ONCE),
    (What::FlushAll { later: true }, 1, AT_ONCE),
    (What::Storm, 3, AT_ONCE),
    (What::Cut, 4, AT_ONCE),
    (What::Refuse, 3, WHILE),
    (What::Delay, 18, (100, 1_200)),
    (What::SlowThenGone, 14, (300, 700)),
    (What::DropRequests, 4, WHILE),
    (What::DropAnswers, 12, WHILE),
    (What::HalfOpen { client_gone: true }, 4, WHILE),
    (What::HalfOpen { client_gone: false }, 4, WHILE),
    (What::CutMidReply, 10, WHILE),
    (What::OneWay { requests_arrive: true }, 6, LONG),
    (What::OneWay { requests_arrive: false }, 5, (1_000, 3_500)),
    (What::StepClock, 3, AT_ONCE),
];

const SWAP: Line = (What::SwapDatabases, 1, WHILE);

fn of_its_own(kind: WorldKind) -> Vec<Line> {
    match kind {
        WorldKind::Single => vec![SWAP, (What::KillServer, 5, (10, 700))],
        WorldKind::Durable => vec![SWAP, (What::KillServer, 10, (10, 700))],
        WorldKind::Replicated => vec![
            SWAP,
            (What::FailOver, 4, AT_ONCE),
            (What::KillMaster, 4, (100, 1_000)),
            (What::Partition, 4, (300, 2_500)),
            (What::KillReplica, 3, (100, 1_000)),
        ],
        WorldKind::Sentinel => vec![
            SWAP,
            (What::FailOver, 6, AT_ONCE),
            (What::KillMaster, 4, AT_ONCE),
            (What::FreezeMaster, 4, AT_ONCE),
            (What::KillReplica, 3, (100, 1_000)),
        ],
        WorldKind::Cluster => vec![
            (What::MoveSlot, 10, (50, 500)),
            (What::FailOver, 6, AT_ONCE),
            (What::KillMaster, 4, AT_ONCE),
            (What::KillReplica, 2, (100, 1_000)),
        ],
        WorldKind::Majority => vec![SWAP, (What::KillServer, 8, (10, 1_500))],
    }
}

/// What may happen in such a world.
pub fn possible(kind: WorldKind) -> Vec<Line> {
    EVERYWHERE.iter().copied().chain(of_its_own(kind)).collect()
}

/// The faults of a round, in order of when they begin.
pub fn schedule(kind: WorldKind, random: &mut Random, length: Duration) -> Vec<(Duration, Fault)> {
    let lines = possible(kind);
    let mut faults = Vec::new();
    let mut at = QUIET_AT_FIRST;
    while at + QUIET_AT_LAST < length {
        faults.push((at, any(&lines, random)));
        let pause = if random.is(PEACE_IN_A_HUNDRED) { PEACE_MS } else { PAUSES_MS };
        at += Duration::from_millis(random.between(pause));
    }
    faults
}

fn any(lines: &[Line], random: &mut Random) -> Fault {
    let all: u32 = lines.iter().map(|(_, weight, _)| weight).sum();
    let mut drawn = random.below(all.into());
    for (what, weight, lasts) in lines {
        match drawn.checked_sub(u64::from(*weight)) {
            Some(rest) => drawn = rest,
            None => return one(*what, *lasts, random),
        }
    }
    unreachable!("what is drawn is below the sum of all")
}

pub fn one(what: What, lasts: (u64, u64), random: &mut Random) -> Fault {
    Fault { what, lasts: Duration::from_millis(random.between(lasts)), seed: random.draw() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_round_and_all_that_may_happen_does() {
        for kind in WorldKind::ALL {
            let of = |seed| schedule(kind, &mut Random::from(seed), Duration::from_secs(3_000));
            assert_eq!(of(1), of(1));
            assert_ne!(of(1), of(2));
            let round = of(1);
            for (what, ..) in possible(kind) {
                assert!(round.iter().any(|(_, fault)| fault.what == what), "{what:?} never comes");
            }
        }
    }

    #[test]
    fn faults_come_in_order_and_leave_the_last_moments_in_peace() {
        let length = Duration::from_secs(60);
        let round = schedule(WorldKind::Single, &mut Random::from(3), length);
        assert!(round.is_sorted_by_key(|(at, _)| *at));
        assert!(round.iter().all(|(at, _)| *at >= QUIET_AT_FIRST && *at + QUIET_AT_LAST < length));
    }
}
