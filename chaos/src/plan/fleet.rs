//! Who takes part in a round.

use super::{Client, ClientKind, Habits, Lock};
use rlock_testing::Random;

/// How a fleet is made up, of which each world has its own.
#[derive(Clone, Debug)]
pub struct Makeup {
    pub processes: u32,
    /// Of each kind, over all processes.
    pub commands: u32,
    pub sessions: u32,
    pub scripts: u32,
    pub guards: u32,
    /// The few locks that everybody wants.
    pub hot: u32,
    /// The many that are rarely wanted by two.
    pub cold: u32,
    pub replicas: u32,
}

impl Makeup {
    pub const ORDINARY: Self =
        Self { processes: 8, commands: 55, sessions: 55, scripts: 30, guards: 60, hot: 12, cold: 10_000, replicas: 0 };

    /// Without what needs a server's full speed: the servers are many.
    pub const SMALL: Self =
        Self { processes: 6, commands: 20, sessions: 20, scripts: 12, guards: 30, cold: 200, ..Self::ORDINARY };
}

/// The clients of a round, by process.
pub fn fleet(makeup: &Makeup, random: &mut Random) -> Vec<Vec<Client>> {
    let kinds = [
        (ClientKind::Commands, makeup.commands),
        (ClientKind::Sessions, makeup.sessions),
        (ClientKind::Scripts, makeup.scripts),
        (ClientKind::Guards, makeup.guards),
    ];
    let mut crews = vec![Vec::new(); makeup.processes as usize];
    let all = kinds.into_iter().flat_map(|(kind, count)| (0..count).map(move |number| (kind, number)));
    for (place, (kind, number)) in all.enumerate() {
        let name = format!("{kind:?}-{number}").to_lowercase();
        let (seed, locks, habits) = (random.draw(), wanted(makeup, kind, random), habits(makeup, kind, random));
        let crew = place % crews.len();
        crews[crew].push(Client { name, seed, kind, line: number, locks, habits });
    }
    crews
}

/// A hot lock, and some others. Every third lock is a read-write lock. Of the hot ones, each third is left to clients whose
/// every step is recorded, so that the whole of its history can be held against a model.
fn wanted(makeup: &Makeup, kind: ClientKind, random: &mut Random) -> Vec<Lock> {
    let is_for_them = |number: &u64| match kind {
        ClientKind::Commands | ClientKind::Sessions => true,
        // They know of no queue, and what they may have taken in between excuses it: every other lock is without them.
        ClientKind::Scripts => number % 2 == 0,
        ClientKind::Guards => number % 3 != 0,
    };
    let mut hot = std::iter::repeat_with(|| random.below(makeup.hot.into())).filter(is_for_them);
    let hot = lock("hot", hot.next().expect("it goes on until there is one"));
    let others = (0..3).map(|_| lock("cold", random.below(makeup.cold.into())));
    std::iter::once(hot).chain(others).collect()
}

fn lock(temperature: &str, number: u64) -> Lock {
    Lock { name: format!("{temperature}:{number}"), is_read_write: number % 3 == 1 }
}

fn habits(makeup: &Makeup, kind: ClientKind, random: &mut Random) -> Habits {
    let is_guard = kind == ClientKind::Guards;
    // The watchdog of the client has its own ideas of leases that are too short to be kept alive.
    let lease_ms = random.one_of(if is_guard { &[1_000, 1_000, 1_500, 5_000] } else { &[150, 400, 1_000, 3_000] });
    let is_reckless = random.is(20);
    let waits_ms = match random.below(4) {
        0 => vec![Some(0)],
        1 => vec![Some(300), Some(2_000)],
        2 => vec![None, Some(1_000)],
        _ => vec![None, Some(50), Some(500), Some(0)],
    };
    Habits {
        lease_ms,
        waits_ms,
        hold_ms: random.one_of(&[(0, 0), (0, 2), (0, 10), (5, 60)]),
        rest_ms: random.one_of(&[(0, 0), (0, 5), (5, 30)]),
        fenced: random.one_of(&[0, 50, 100]),
        reads: random.one_of(&[20, 70, 90]),
        enters_again: random.one_of(&[0, 10]),
        // What a watchdog does wrong shows only where it has something to do.
        renews: random.one_of(if is_guard { &[10, 40] } else { &[0, 20] }),
        stalls: if is_guard { 10 } else { 5 * u8::from(is_reckless) },
        dies: if is_guard { 10 } else { 5 * u8::from(is_reckless) },
        gives_up: random.one_of(if is_guard { &[10, 30] } else { &[0, 10] }),
        replicas: if random.is(50) { makeup.replicas } else { 0 },
    }
}
