//! What the module keeps of waiters, without a server: a million of them, which no server here could have.
//!
//! It is the module's own structure, in a process of its own, or what was in memory before would hide what it takes. What is
//! timed is done once after the processor's caches were filled with something else, as on a server that does other things
//! between two such questions.

use crate::interrupt;
use rlock_core::lock::{Expiry, Lease, Observed, Outcome, Plan, Record, Refusal, Side, Snapshot, UnixMs, Wish};
use rlock_core::waiting::commands::{Acquiring, Waiting};
use rlock_core::waiting::{
    Engine, GraceNews, Host, LockName, Note, Paused, Permission, Room, Ticket, Trigger, WaitsFor,
};
use std::cell::Cell;
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

/// As large as what the module keeps of a blocked client.
struct Nobody {
    _blocked: usize,
    _number: u64,
}

/// The waiters, and a host on which each lock is held until its lease ends.
struct Holding {
    engine: Engine<Nobody>,
    host: Clock,
    /// As the module keeps it beside the engine.
    #[allow(dead_code, reason = "it is there for what it takes")]
    tickets: HashMap<usize, Ticket>,
}

struct Clock(Cell<UnixMs>);

impl Holding {
    fn with(shape: Shape, waiters: usize) -> Self {
        let host = Clock(Cell::new(NOW));
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
            self.host.0.set(self.host.0.get() + 100);
            self.engine.catch_up(&self.host);
        });
    }
}

/// A lock that another has, until its lease ends.
struct Held(UnixMs);

impl Record for Held {
    fn is_there(&self) -> bool {
        true
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        Ok(Observed::Others)
    }

    fn expiry(&self) -> Expiry {
        Expiry::At(self.0)
    }

    fn derived_keys_are_reachable(&self) -> bool {
        true
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        Ok(1)
    }

    fn token_clock_us(&self) -> Option<i64> {
        None
    }

    fn readers(&self) -> usize {
        0
    }

    fn read_hold_end(&self, _: i64) -> Option<Expiry> {
        None
    }

    fn longest_read_lease(&self, _: i64, _: UnixMs) -> Option<Expiry> {
        None
    }
}

impl Host for Clock {
    type Client = Nobody;
    type Text<'a> = &'a [u8];
    type OwnText = Vec<u8>;
    type Lock<'a> = Held;
    type Selected<'a> = ();

    fn next_note(&self) -> Option<Note> {
        None
    }

    fn now(&self) -> UnixMs {
        self.0.get()
    }

    fn steady_ms(&self) -> i64 {
        self.0.get()
    }

    fn grace_ms(&self) -> i64 {
        0
    }

    fn tell_grace(&self, _: GraceNews) {}

    fn turn_is_over(&self) -> bool {
        false
    }

    fn has_user(&self, _: &[u8]) -> bool {
        true
    }

    fn clients_are_paused(&self) -> bool {
        false
    }

    fn own(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn lend<'a>(&'a self, text: &'a Vec<u8>) -> &'a [u8] {
        text
    }

    fn shorter<'b, 'a: 'b>(text: &'a [u8]) -> &'b [u8] {
        text
    }

    fn database(&self) -> i32 {
        0
    }

    fn select(&self, _: i32) {}

    fn open<'a>(&'a self, key: &'a [u8], _: &'a [u8]) -> Held {
        let number = key.rsplit(|byte| *byte == b':').next().and_then(|digits| std::str::from_utf8(digits).ok());
        let number: i64 = number.and_then(|digits| digits.parse().ok()).expect("a lock's number");
        Held(NOW + LEASE_MS + number)
    }

    fn commit<'a, 'b>(&'a self, _: Held, _: &Plan<'_, &'b [u8]>) -> Result<(), Paused>
    where
        Self: 'b,
    {
        panic!("nothing is granted here");
    }

    fn snapshot(&self, _: &[u8], _: usize) -> Result<Option<Snapshot>, Refusal> {
        Ok(None)
    }

    fn fitness(&self, _: Trigger) -> Permission {
        Permission::Granted
    }

    fn is_known_to_be_fit(&self, _: Trigger) -> bool {
        true
    }

    fn permission(&self, _: &[u8], _: Trigger) -> Permission {
        Permission::Granted
    }

    fn may_touch_any_key(&self) -> bool {
        true
    }

    fn left_ms(&self, _: LockName<'_>) -> i64 {
        LEASE_MS
    }

    fn most_blocked(&self) -> usize {
        usize::MAX
    }

    fn most_tickets(&self) -> usize {
        usize::MAX
    }

    fn listen(&self, _: Side) {}

    fn room(&self) -> Room {
        Room { all: 0, of_user: 0, has_memory: true }
    }

    fn may_block(&self) -> bool {
        true
    }

    fn block(&self) -> Option<Nobody> {
        Some(Nobody { _blocked: 0, _number: 0 })
    }

    fn blocked(&self, _: &Nobody, _: WaitsFor) {}

    fn answer(&self, _: Nobody, outcome: Outcome, _: bool) {
        panic!("nobody is told anything here, but {outcome:?}");
    }

    fn answer_cancel(&self, _: Nobody, _: usize) {
        panic!("nobody takes anything back here");
    }

    fn wake(&self, _: Nobody) {
        panic!("nobody waits for events here");
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
