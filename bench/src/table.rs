//! What the module keeps of waiters, without a server: a million of them, which no server here could have.
//!
//! It is the module's own structure, in a process of its own, or what was in memory before would hide what it takes. What is
//! timed is done once after the processor's caches were filled with something else, as on a server that does other things
//! between two such questions.

use crate::interrupt;
use crate::no_server::{Client, Locks, NoServer};
use rlock_core::lock::{Changes, Lease, Observed, Side, UnixMs, Wish};
use rlock_core::waiting::commands::{Acquiring, Waiting};
use rlock_core::waiting::{Engine, Ticket};
use std::collections::HashMap;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Which locks the waiters wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All for one lock, without an end.
    OneLock,
    /// All for one lock, each for some time.
    OneLockInTime,
    /// Each for a lock of its own, whose lease is known.
    LockEach,
}

/// The memory of a waiter.
pub const BYTES: &str = "bytes";

/// What the program is told to be that process.
pub const WORD: &str = "table";

/// What was measured, by name, with so many waiters.
pub fn in_its_own_process(shape: Shape, waiters: usize) -> Vec<(String, Vec<f64>)> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([WORD, shape.id(), &waiters.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let output = interrupt::run(&mut command).expect("this program runs");
    assert!(output.status.success(), "the table was not measured");
    let text = String::from_utf8(output.stdout).expect("words and numbers");
    let figure = |line: &str| {
        let (name, samples) = line.split_once(' ')?;
        Some((name.to_owned(), samples.split(' ').filter_map(|sample| sample.parse().ok()).collect()))
    };
    text.lines().filter_map(figure).collect()
}

impl Shape {
    const ALL: [Self; 3] = [Self::OneLock, Self::OneLockInTime, Self::LockEach];

    pub fn id(self) -> &'static str {
        match self {
            Self::OneLock => "one_lock",
            Self::OneLockInTime => "one_lock_in_time",
            Self::LockEach => "lock_each",
        }
    }
}

/// In that process: measures, and prints a line for each figure.
pub fn print(shape: &str, waiters: &str) -> Option<()> {
    let shape = *Shape::ALL.iter().find(|it| it.id() == shape)?;
    let waiters = waiters.parse().ok()?;
    let before = resident();
    let mut holding = Holding::with(shape, waiters);
    println!("{BYTES} {}", (resident() - before) as f64 / waiters as f64);
    if shape == Shape::LockEach {
        holding.time();
    }
    Some(())
}

const NOW: UnixMs = 1_800_000_000_000;
const LEASE_MS: i64 = 6_000_000;

/// The waiters, and a host on which each lock is held until its lease ends.
struct Holding {
    engine: Engine<Client>,
    host: NoServer<Held>,
    /// As the module keeps it beside the engine.
    #[allow(dead_code, reason = "it is there for what it takes")]
    tickets: HashMap<usize, Ticket>,
}

/// Another has each lock, until its lease ends.
struct Held;

impl Locks for Held {
    fn look(&self, key: &[u8], _: &[u8]) -> (Observed, UnixMs) {
        let number = key.rsplit(|byte| *byte == b':').next().and_then(|digits| std::str::from_utf8(digits).ok());
        let number: i64 = number.and_then(|digits| digits.parse().ok()).expect("a lock's number");
        (Observed::Others, NOW + LEASE_MS + number)
    }

    fn change(&self, _: &[u8], _: &[u8], _: &Changes) {
        panic!("nothing is granted here");
    }
}

impl Holding {
    fn with(shape: Shape, waiters: usize) -> Self {
        let host = NoServer::new(Held, NOW);
        let mut holding = Self { engine: Engine::default(), host, tickets: HashMap::new() };
        for number in 0..waiters {
            // As long as Redisson's.
            let holder = format!("b983c153-7421-469a-addb-44fb92259a1b:{number:06}");
            let lease = Lease::from_ms(30_000).expect("a lease");
            let wish = Wish { holder: holder.as_bytes(), side: Side::Plain, lease, fenced: false };
            let (key, limit_ms) = match shape {
                Shape::OneLock => ("orders:42".to_owned(), 0),
                Shape::OneLockInTime => ("orders:42".to_owned(), LEASE_MS + number as i64),
                Shape::LockEach => (format!("orders:{number:06}"), 0),
            };
            let waiting = Some(Waiting { limit_ms, max: None, ticket: None });
            let Ok(Acquiring::Blocked(ticket)) = holding.engine.acquire(&holding.host, key.as_bytes(), &wish, waiting)
            else {
                panic!("there is room for all");
            };
            holding.tickets.insert(number, ticket);
        }
        holding
    }

    /// What is asked by INFO and by QUEUES, and what is looked at again and again.
    fn time(&mut self) {
        print_times("info", || {
            let engine = &self.engine;
            black_box((engine.length(), engine.locks(), engine.longest(), engine.oldest_since()));
        });
        print_times("queues", || {
            self.engine.to_be_shown(0, 100, |_| true).for_each(|queue| _ = black_box(queue));
        });
        print_times("blind", || {
            let may_be_shown = |key: &[u8]| black_box(key).is_empty();
            assert_eq!(self.engine.to_be_shown(0, 100, may_be_shown).count(), 0);
        });
        print_times("looks", || {
            self.host.now.set(self.host.now.get() + 100);
            self.engine.catch_up(&self.host);
        });
    }
}

/// More than the caches of most processors hold.
const CACHES: usize = 64 << 20;

const SAMPLES: usize = 25;

fn print_times(name: &str, mut work: impl FnMut()) {
    let mut other = vec![0_u8; CACHES];
    let mut sample = || {
        other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&other);
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / 1_000.0
    };
    // The first one also learns where everything is.
    sample();
    let samples: Vec<_> = (0..SAMPLES).map(|_| sample().to_string()).collect();
    println!("{name} {}", samples.join(" "));
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
