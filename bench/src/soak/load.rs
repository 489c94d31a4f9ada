//! The load: clients of all kinds. Most of them behave, and some vanish.
//!
//! Names of locks change every minute, and now and then there are many locks and waiters for a moment, so the server's tables
//! have to grow and shrink again. Only names with fencing counters stay the same, as a counter stays forever. No lease,
//! session or answer lasts longer than ten seconds.

use rlock_client::{ErrorKind, Locks};
use rlock_testing::{Client, Random, Reply, Server, wait_until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task;

/// Threads that send commands, and tasks that share two `rlock-client`s.
const CALLERS: u64 = 4;
const TASKS: u64 = 16;

/// How long a client pauses after each step, in ms: this sets the rate.
const PAUSE_MS: (u64, u64) = (5, 35);

/// How many names the clients of one kind use. The names change every minute.
const NAMES: u64 = 8;

/// How many locks, and how many waiters, each wave adds for a moment.
const MANY: u64 = 500;
const BETWEEN_WAVES: Duration = Duration::from_secs(20);

/// What all clients of a run share.
struct Shared {
    socket: PathBuf,
    start: Instant,
    is_over: AtomicBool,
    /// Calls of `rlock-client` that no server answered in time: a machine that stalls causes them.
    unavailable: AtomicU64,
    /// Replies that no client should get, by their first words.
    unexpected: Mutex<BTreeMap<String, u64>>,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn name(&self, kind: &str, random: &mut Random) -> String {
        let minute = self.start.elapsed().as_secs() / 60;
        format!("{kind}:{minute}:{}", random.below(NAMES))
    }

    fn report(&self, what: &str) {
        let what = what.split(' ').take(3).collect::<Vec<_>>().join(" ");
        *self.unexpected.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// No command of the load has a reason to fail, except that a stall may end a session between two commands.
    fn say(&self, client: &mut Client, command: &str) -> Reply {
        let reply = client.say(command);
        match &reply {
            Reply::Error(line) if !line.starts_with("NOSESSION") => self.report(line),
            _ => {}
        }
        reply
    }

    /// Whether the lock was granted.
    fn acquire(&self, client: &mut Client, command: &str) -> bool {
        match self.say(client, command) {
            Reply::Nil => true,
            Reply::List(list) => list.first() == Some(&Reply::Nil),
            Reply::Error(_) | Reply::Int(_) | Reply::Text(_) => false,
        }
    }
}

pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    runtime: Runtime,
    tasks: Vec<task::JoinHandle<()>>,
}

impl Load {
    /// With `leaks`, one more client opens sessions and never uses them, to check that the verdict is then a failure.
    pub fn begin(server: &Server, leaks: bool) -> Self {
        let shared = Arc::new(Shared {
            socket: server.socket(),
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            unavailable: AtomicU64::new(0),
            unexpected: Mutex::default(),
        });
        let work = |seed: u64, work: fn(&Shared, &mut Random, u64)| {
            let shared = Arc::clone(&shared);
            spawn(move || work(&shared, &mut Random::from(seed), seed))
        };
        let mut threads: Vec<_> = (0..CALLERS).map(|seed| work(seed, call)).collect();
        threads.extend([work(100, answer), work(101, answer), work(102, hold), work(103, vanish), work(104, waves)]);
        if leaks {
            threads.push(work(105, leak));
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let tasks = runtime.block_on(async {
            let locks = [connect(&shared.socket).await, connect(&shared.socket).await];
            let spawned = (0..TASKS).zip(locks.iter().cycle());
            spawned.map(|(task, locks)| tokio::spawn(guard(Arc::clone(&shared), locks.clone(), task))).collect()
        });
        Self { shared, threads, runtime, tasks }
    }

    pub fn unavailable(&self) -> u64 {
        self.shared.unavailable.load(Ordering::Relaxed)
    }

    pub fn unexpected(&self) -> u64 {
        self.shared.unexpected.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Ends all clients. Returns the replies that they should not have got, and how many.
    pub fn end(self) -> Vec<(String, u64)> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter().map(|thread| thread.join().is_ok());
        let tasks = self.tasks.into_iter().map(|task| self.runtime.block_on(task).is_ok());
        for _ in threads.chain(tasks).filter(|has_ended| !has_ended) {
            self.shared.report("clients have panicked");
        }
        std::mem::take(&mut *self.shared.unexpected.lock().unwrap_or_else(PoisonError::into_inner))
            .into_iter()
            .collect()
    }
}

fn pause(random: &mut Random) {
    sleep(Duration::from_millis(random.between(PAUSE_MS)));
}

/// Acquires and releases locks of all kinds by commands.
fn call(shared: &Shared, random: &mut Random, seed: u64) {
    let mut client = Client::connect(&shared.socket).expect("the server accepts connections");
    for number in 0_u64.. {
        if !shared.goes_on() {
            return;
        }
        let holder = format!("caller-{seed}:{number}");
        let fenced = format!("fenced:{}", random.below(NAMES));
        let [plain, shares, permit] = ["plain", "shares", "permit"].map(|kind| shared.name(kind, random));
        let several = [shared.name("several", random), format!("{}:b", shared.name("several", random))];
        let (acquire, release) = match random.below(16) {
            0..5 => (format!("ACQUIRE {plain} {holder} 2000 WAIT 300"), vec![format!("RELEASE {plain} {holder}")]),
            5 | 6 => (
                format!("ACQUIRE {fenced} {holder} 2000 WAIT 300 FENCED"),
                vec![format!("RENEW {fenced} {holder} 2000"), format!("RELEASE {fenced} {holder}")],
            ),
            7 | 8 => {
                (format!("RACQUIRE {shares} {holder} 2000 WAIT 300"), vec![format!("RELEASE {shares} {holder} ALL")])
            }
            9 => (format!("WACQUIRE {shares} {holder} 2000 WAIT 300"), vec![format!("RELEASE {shares} {holder} ALL")]),
            10 | 11 => (
                format!("PACQUIRE {permit} {holder} 2000 LIMIT 3 WAIT 300"),
                vec![format!("RELEASE {permit} {holder}")],
            ),
            12 | 13 => (
                format!("MACQUIRE 2 {} {holder} 2000 WAIT 300", several.join(" ")),
                several.iter().map(|name| format!("RELEASE {name} {holder}")).collect(),
            ),
            // Not released: its lease ends.
            14 => (format!("ACQUIRE {plain} {holder} 100 WAIT 300"), Vec::new()),
            _ => {
                shared.say(&mut client, &format!("DEL {plain}"));
                continue;
            }
        };
        if shared.acquire(&mut client, &format!("RLOCK.{acquire}")) {
            pause(random);
            for command in release {
                shared.say(&mut client, &format!("RLOCK.{command}"));
            }
        }
        pause(random);
    }
}

/// Leads, or gets another leader's answer. One lead in eight fails, and one in eight is never ended.
fn answer(shared: &Shared, random: &mut Random, seed: u64) {
    let mut client = Client::connect(&shared.socket).expect("the server accepts connections");
    for number in 0_u64.. {
        if !shared.goes_on() {
            return;
        }
        let (name, holder) = (shared.name("answer", random), format!("leader-{seed}:{number}"));
        if shared.acquire(&mut client, &format!("RLOCK.ONCE {name} {holder} 200 WAIT 500")) {
            match random.below(8) {
                0 => drop(shared.say(&mut client, &format!("RLOCK.RELEASE {name} {holder}"))),
                1 => {}
                _ => {
                    let value = "v".repeat(usize::try_from(random.between((1, 4_096))).expect("a length"));
                    drop(shared.say(&mut client, &format!("RLOCK.ANSWER {name} {holder} {value} KEEP 1000")));
                }
            }
        }
        pause(random);
    }
}

/// A lock that is held for as long as the run lasts, so that there is something to wait for.
const KEPT: &str = "kept";

fn hold(shared: &Shared, _: &mut Random, _: u64) {
    let mut client = Client::connect(&shared.socket).expect("the server accepts connections");
    wait_until("the lock is held", || {
        shared.say(&mut client, &format!("RLOCK.ACQUIRE {KEPT} holder 10000")) == Reply::Nil
    });
    while shared.goes_on() {
        sleep(Duration::from_millis(500));
        if shared.say(&mut client, &format!("RLOCK.RENEW {KEPT} holder 10000")) != Reply::Int(1) {
            shared.report("the kept lock was lost");
        }
    }
    shared.say(&mut client, &format!("RLOCK.RELEASE {KEPT} holder ALL"));
}

/// Clients that wait and disconnect, are killed while they wait, or wait by a session that no client polls again.
fn vanish(shared: &Shared, random: &mut Random, _: u64) {
    let connect = || Client::connect(&shared.socket).expect("the server accepts connections");
    let mut operator = connect();
    for number in 0_u64.. {
        if !shared.goes_on() {
            return;
        }
        let mut client = connect();
        if random.is(30) {
            let session = format!("a-session-without-client-{number}");
            shared.say(&mut client, &format!("RLOCK.EVENTS {session} ACK 0 TTL 1000"));
            shared.say(&mut client, &format!("RLOCK.ACQUIRE {KEPT} gone-{number} 2000 WAIT 60000 SESSION {session} 1"));
        } else {
            let id = shared.say(&mut client, "CLIENT ID").as_int();
            client.send(&format!("RLOCK.ACQUIRE {KEPT} gone-{number} 2000 WAIT 60000").split(' ').collect::<Vec<_>>());
            if random.is(50) {
                shared.say(&mut operator, &format!("CLIENT KILL ID {id}"));
            }
        }
        drop(client);
        pause(random);
        pause(random);
    }
}

/// Many locks with leases that end, and many tickets of sessions that end by command or by their TTL.
fn waves(shared: &Shared, random: &mut Random, _: u64) {
    let mut client = Client::connect(&shared.socket).expect("the server accepts connections");
    let mut last = Instant::now();
    for wave in 0_u64.. {
        while last.elapsed() < BETWEEN_WAVES {
            if !shared.goes_on() {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        last = Instant::now();
        let session = format!("a-session-of-wave-{wave}");
        shared.say(&mut client, &format!("RLOCK.EVENTS {session} ACK 0 TTL 10000"));
        for number in 0..MANY {
            shared.say(&mut client, &format!("RLOCK.ACQUIRE wave:{wave}:{number} a-holder 5000"));
            shared.say(
                &mut client,
                &format!("RLOCK.ACQUIRE {KEPT} waiter-{number} 2000 WAIT 60000 SESSION {session} {}", number + 1),
            );
            sleep(Duration::from_millis(2));
        }
        let largest = shared.say(&mut client, "RLOCK.SESSIONS COUNT 1");
        if let (true, [Reply::List(session)]) = (random.is(50), largest.as_list()) {
            shared.say(&mut client, &format!("RLOCK.SESSIONS END {}", session[1].as_int()));
        }
    }
}

/// Opens sessions that live for ten minutes, and stores keys without an end.
fn leak(shared: &Shared, random: &mut Random, _: u64) {
    let mut client = Client::connect(&shared.socket).expect("the server accepts connections");
    for number in 0_u64.. {
        if !shared.goes_on() {
            return;
        }
        shared.say(&mut client, &format!("RLOCK.EVENTS a-leaked-session-{number} ACK 0 TTL 600000"));
        shared.say(&mut client, &format!("SET leaked-{number} {}", "v".repeat(200)));
        pause(random);
    }
}

/// Locks by `rlock-client`, which waits by tickets: released, dropped, kept for longer than a lease, or given up while it
/// waits.
async fn guard(shared: Arc<Shared>, locks: Locks, task: u64) {
    let mut random = Random::from(1_000 + task);
    while shared.goes_on() {
        let [plain, shares, permit] =
            ["client", "client-shares", "client-permit"].map(|kind| shared.name(kind, &mut random));
        let limit = Duration::from_millis(random.between((20, 1_000)));
        let ended = match random.below(4) {
            0 => work(locks.lock(&plain).acquire_timeout(limit).await, &mut random).await,
            1 => work(locks.read_write(&shares).read().acquire_timeout(limit).await, &mut random).await,
            2 => work(locks.permits(&permit, 3).acquire_timeout(limit).await, &mut random).await,
            // A wait that its caller gives up.
            _ => match tokio::time::timeout(limit, locks.lock(&plain).acquire()).await {
                Ok(guard) => work(guard, &mut random).await,
                Err(_) => Ok(()),
            },
        };
        match ended.map_err(|error| (error.kind(), error.to_string())) {
            Ok(()) | Err((ErrorKind::Timeout, _)) => {}
            Err((ErrorKind::Unavailable, _)) => _ = shared.unavailable.fetch_add(1, Ordering::Relaxed),
            Err((_, error)) => shared.report(&error),
        }
        tokio::time::sleep(Duration::from_millis(random.between((50, 250)))).await;
    }
}

async fn work<F>(
    guard: Result<rlock_client::Guard<F>, rlock_client::Error>,
    random: &mut Random,
) -> Result<(), rlock_client::Error> {
    let guard = guard?;
    // The watchdog renews a lease each second.
    let ms = if random.is(3) { 4_000 } else { random.between(PAUSE_MS) };
    tokio::time::sleep(Duration::from_millis(ms)).await;
    // A guard that is dropped is released in the background.
    if random.is(80) { guard.release().await } else { Ok(()) }
}

async fn connect(socket: &Path) -> Locks {
    let address = format!("redis+unix://{}", socket.display());
    let options = Locks::options().lease(Duration::from_secs(3));
    options.connect_to(address.as_str()).await.expect("the server accepts connections")
}
