//! The clients of a round.

use super::{Client, ClientKind, Habits, Lock, LockKind};
use crate::worlds::LONGEST_LEASE_MS;
use rlock_testing::Random;

/// Percentage of clients that mostly want permits; and of those that send their commands themselves, the percentage
/// that want several locks of one family at once.
const WANTS_PERMITS: u64 = 20;
const WANTS_SEVERAL: u64 = WANTS_PERMITS + 25;

/// Of the clients that send their commands themselves, the percentage that call ONCE; of the guards, the percentage that
/// want the same locks.
const WANTS_ANSWERS: u64 = WANTS_SEVERAL + 20;
const GUARD_WANTS_ANSWERS: u64 = WANTS_PERMITS + 5;

/// The keys with permits, and the locks of the one family: few enough for clients to meet.
const PERMITS: u64 = 2;
const FAMILY: u64 = 5;

/// How long the answers of each lock are kept, in ms: from and to. Short times make leaders, long ones outlast a restart.
const KEPT_MS: [(u64, u64); 3] = [(5, 60), (20, 500), (1_500, 3_000)];

/// If failovers are played alone, each hot lock has clients of this many sorts: with a short hold or a long one, at the
/// first line or the second.
const SORTS_OF_EACH: u32 = 4;

/// The composition of a fleet. Each world has its own.
#[derive(Clone, Debug)]
pub struct Makeup {
    pub processes: u32,
    /// Per kind, over all processes.
    pub commands: u32,
    pub scripts: u32,
    pub guards: u32,
    /// The few locks that every client wants.
    pub hot: u32,
    /// The many locks that two clients rarely want at once.
    pub cold: u32,
    /// If failovers are played alone: no lease is longer. Each hot lock has clients that keep it for a moment, so that
    /// it is granted at any time, and others that keep it for this long, so that a failover finds it held.
    pub longest_ms: Option<u64>,
}

impl Makeup {
    pub const ORDINARY: Self =
        Self { processes: 8, commands: 85, scripts: 30, guards: 85, hot: 12, cold: 10_000, longest_ms: None };

    /// For worlds with many servers, which are slower.
    pub const SMALL: Self = Self { processes: 6, commands: 30, scripts: 12, guards: 40, cold: 200, ..Self::ORDINARY };

    /// For failovers alone, with this many hot locks. Without scripts: they ignore a grace, so a second holder next to
    /// one of them says nothing.
    pub const fn of_failovers(hot: u32) -> Self {
        let (commands, guards) = (hot * SORTS_OF_EACH + 30, hot + 6);
        Self { processes: 4, commands, scripts: 0, guards, hot, cold: 4, longest_ms: Some(LONGEST_LEASE_MS) }
    }
}

impl Makeup {
    /// The locks that many clients want at any time.
    pub fn popular(&self) -> Vec<String> {
        let hot = (0..self.hot.into()).map(|number| lock("hot", number).name);
        let once = locks_with_answers().into_iter().map(|lock| lock.name);
        hot.chain((0..PERMITS).map(|number| permits(number).name)).chain(once).chain(family()).collect()
    }
}

/// The clients of a round, by process.
pub fn fleet(makeup: &Makeup, random: &mut Random) -> Vec<Vec<Client>> {
    let kinds = [
        (ClientKind::Commands, makeup.commands),
        (ClientKind::Scripts, makeup.scripts),
        (ClientKind::Guards, makeup.guards),
    ];
    let mut groups = vec![Vec::new(); makeup.processes as usize];
    let all = kinds.into_iter().flat_map(|(kind, count)| (0..count).map(move |number| (kind, number)));
    for (place, (kind, number)) in all.enumerate() {
        let name = format!("{kind:?}-{number}").to_lowercase();
        let (seed, locks, habits) = (random.draw(), wanted(makeup, kind, random), habits(makeup, kind, random));
        let group = place % groups.len();
        let mut client = Client { name, seed, kind, line: number, locks, habits };
        if let Some(longest_ms) = makeup.longest_ms {
            assign(&mut client, makeup, longest_ms);
        }
        groups[group].push(client);
    }
    groups
}

/// A hot lock, and some others. Every third lock is a read-write lock.
fn wanted(makeup: &Makeup, kind: ClientKind, random: &mut Random) -> Vec<Lock> {
    // Half of the locks have no scripts: scripts do not queue, and what one may have acquired in between is an excuse.
    let is_for_them = |number: &u64| kind != ClientKind::Scripts || number % 2 == 0;
    let mut hot = std::iter::repeat_with(|| random.below(makeup.hot.into())).filter(is_for_them);
    let hot = lock("hot", hot.next().expect("it goes on until there is one"));
    let hot = match (kind, random.below(100)) {
        // Redisson's permits are other keys.
        (ClientKind::Commands | ClientKind::Guards, ..WANTS_PERMITS) => permits(random.below(PERMITS)),
        (ClientKind::Commands, ..WANTS_SEVERAL) => one_of_family(random.below(FAMILY)),
        (ClientKind::Commands, ..WANTS_ANSWERS) | (ClientKind::Guards, ..GUARD_WANTS_ANSWERS) => {
            random.one_of(&locks_with_answers())
        }
        _ => hot,
    };
    let others = (0..3).map(|_| lock("cold", random.below(makeup.cold.into())));
    std::iter::once(hot).chain(others).collect()
}

fn lock(temperature: &str, number: u64) -> Lock {
    let kind = if number % 3 == 1 { LockKind::ReadWrite } else { LockKind::Plain };
    Lock { name: format!("{temperature}:{number}"), kind, others: Vec::new() }
}

fn permits(number: u64) -> Lock {
    Lock { name: format!("permits:{number}"), kind: LockKind::Permits, others: Vec::new() }
}

pub fn locks_with_answers() -> Vec<Lock> {
    let lock = |(number, keep_ms): (usize, &(u64, u64))| {
        let (name, kind) = (format!("once:{number}"), LockKind::Once { keep_ms: *keep_ms });
        Lock { name, kind, others: Vec::new() }
    };
    KEPT_MS.iter().enumerate().map(lock).collect()
}

fn one_of_family(number: u64) -> Lock {
    let (name, others) = family().enumerate().partition::<Vec<_>, _>(|(place, _)| *place as u64 == number);
    let names = |locks: Vec<(usize, String)>| locks.into_iter().map(|(_, name)| name);
    Lock { name: names(name).collect(), kind: LockKind::Plain, others: names(others).collect() }
}

/// All of one slot.
fn family() -> impl Iterator<Item = String> {
    (0..FAMILY).map(|number| format!("{{family}}:{number}"))
}

fn habits(makeup: &Makeup, kind: ClientKind, random: &mut Random) -> Habits {
    let is_guard = kind == ClientKind::Guards;
    // Guards need leases that are long enough for the watchdog.
    let lease_ms = random.one_of(if is_guard { &[1_000, 1_000, 1_500, 5_000] } else { &[150, 400, 1_000, 3_000] });
    let is_reckless = random.is(20);
    let waits_ms = match random.below(4) {
        0 => vec![Some(0)],
        1 => vec![Some(300), Some(2_000)],
        2 => vec![None, Some(1_000)],
        _ => vec![None, Some(50), Some(500), Some(0)],
    };
    let habits = Habits {
        lease_ms,
        waits_ms,
        hold_ms: random.one_of(&[(0, 0), (0, 2), (0, 10), (5, 60)]),
        rest_ms: random.one_of(&[(0, 0), (0, 5), (5, 30)]),
        fenced: random.one_of(&[0, 50, 100]),
        reads: random.one_of(&[20, 70, 90]),
        enters_again: random.one_of(&[0, 10]),
        // A defect of the watchdog shows only if it has something to do.
        renews: random.one_of(if is_guard { &[10, 40] } else { &[0, 20] }),
        stalls: if is_guard { 10 } else { 5 * u8::from(is_reckless) },
        dies: if is_guard { 10 } else { 5 * u8::from(is_reckless) },
        gives_up: random.one_of(if is_guard { &[10, 30] } else { &[0, 10] }),
        // In other worlds a name belongs to one attempt, so that the attempt explains each sample.
        comes_back: 0,
    };
    match makeup.longest_ms {
        Some(longest_ms) => Habits {
            lease_ms: random.one_of(&[longest_ms / 2, longest_ms]),
            hold_ms: random.one_of(&[(0, 20), (longest_ms / 8, longest_ms / 2)]),
            comes_back: if kind == ClientKind::Commands { random.one_of(&[50, 90]) } else { 0 },
            ..habits
        },
        None => habits,
    }
}

/// Assigns clients to each hot lock; the remaining clients keep what chance gave them.
fn assign(client: &mut Client, makeup: &Makeup, longest_ms: u64) {
    let (number, sort) = (client.line % makeup.hot, client.line / makeup.hot);
    let is_guard = client.kind == ClientKind::Guards;
    if sort >= if is_guard { 1 } else { SORTS_OF_EACH } {
        return;
    }
    client.locks = vec![lock("hot", number.into())];
    let others = Habits { reads: 10, stalls: 0, dies: 0, enters_again: 0, gives_up: 0, ..client.habits.clone() };
    client.habits = if is_guard || sort < 2 {
        // Held beyond the lease: a release would leave the replica with an outdated holder.
        let waits_ms = vec![Some(1_000), Some(0)];
        // Different lengths: a grace ends for all locks at once, and they should not all be granted again at once.
        let lease_ms = longest_ms * [4, 7, 10][((number + sort) % 3) as usize] / 10;
        Habits { lease_ms, waits_ms, rest_ms: (500, 3_000), stalls: 100, comes_back: 0, ..others }
    } else {
        let waits_ms = vec![None, Some(200)];
        Habits { lease_ms: BRIEF_MS, waits_ms, hold_ms: (20, BRIEF_MS / 2), rest_ms: (5, 100), renews: 0, ..others }
    };
    client.line = if is_guard { number } else { sort };
}

/// The lease of clients that keep a lock for a moment. It is over before a replica that has not heard of its end takes
/// over.
const BRIEF_MS: u64 = 300;
