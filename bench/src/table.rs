//! What the module keeps of waiters, without a server: a million of them, which no server here could have.
//!
//! It is the module's own structure, in a process of its own, or what was in memory before would hide what it takes. What is
//! timed is done once after the processor's caches were filled with something else, as on a server that does other things
//! between two such questions.

use crate::interrupt;
use rlock_core::lock::{Expiry, Lease, Observed, Outcome, Plan, Record, Refusal, Side, Snapshot, UnixMs, Wish};
use rlock_core::waiting::{
    Host, LockName, Names, Paused, Permission, Recipient, Table, Ticket, Trigger, Waiter, serve,
};
use std::cell::{Cell, RefCell};
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
    let host = Holding::with(shape, waiters);
    println!("{BYTES} {}", (resident() - before) as f64 / waiters as f64);
    if shape == Shape::LockEach {
        host.time();
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

/// A host on which each lock is held until its lease ends.
struct Holding {
    table: RefCell<Table<Nobody>>,
    /// As the module keeps it beside the table.
    #[allow(dead_code, reason = "it is there for what it takes")]
    tickets: HashMap<usize, Ticket>,
    now: Cell<UnixMs>,
}

impl Holding {
    fn with(shape: Shape, waiters: usize) -> Self {
        let (table, now) = (RefCell::default(), Cell::new(NOW));
        let mut host = Self { table, tickets: HashMap::new(), now };
        for number in 0..waiters {
            // As long as Redisson's.
            let holder = format!("b983c153-7421-469a-addb-44fb92259a1b:{number:06}");
            let lease = Lease::from_ms(30_000).expect("a lease");
            let wish = Wish { holder: Names::from(holder.as_bytes()), side: Side::Plain, lease, fenced: false };
            let recipient = Recipient::Client(Nobody { _blocked: number, _number: 0 });
            let waiter = Waiter { recipient, wish };
            let (key, deadline, left_ms) = match shape {
                Shape::OneLock => ("orders:42".to_owned(), None, None),
                Shape::OneLockInTime => ("orders:42".to_owned(), Some(NOW + LEASE_MS + number as i64), None),
                Shape::LockEach => (format!("orders:{number:06}"), None, Some(LEASE_MS + number as i64)),
            };
            let lock = LockName { database: 0, key: key.as_bytes() };
            let ticket = serve::wait(&host, lock, waiter, NOW, waiters, deadline, left_ms);
            host.tickets.insert(number, ticket.expect("there is room for all"));
        }
        host
    }

    /// What is asked by INFO and by QUEUES, and what is looked at again and again.
    fn time(&self) {
        print_times("info", || {
            let table = self.table.borrow();
            black_box((table.length(), table.locks(), table.longest(), table.oldest_since()));
        });
        print_times("queues", || {
            self.table.borrow().to_be_shown(0, 100, |_| true).for_each(|queue| _ = black_box(queue));
        });
        print_times("blind", || {
            let may_be_shown = |key: &[u8]| black_box(key).is_empty();
            assert_eq!(self.table.borrow().to_be_shown(0, 100, may_be_shown).count(), 0);
        });
        print_times("looks", || {
            self.now.set(self.now.get() + 100);
            serve::catch_up(self);
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

impl Host for Holding {
    type Client = Nobody;
    type Text<'a> = &'a [u8];
    type OwnText = Vec<u8>;
    type Lock<'a> = Held;
    type Selected<'a> = ();

    fn with_table<T>(&self, use_table: impl FnOnce(&mut Table<Nobody>) -> T) -> T {
        use_table(&mut self.table.borrow_mut())
    }

    fn now(&self) -> UnixMs {
        self.now.get()
    }

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

    fn may_block(&self) -> bool {
        false
    }

    fn block(&self) -> Option<Nobody> {
        None
    }

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
