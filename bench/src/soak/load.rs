//! The load: clients of all kinds, most of which behave, and some of which vanish.
//!
//! Names of locks change every minute, so the server's tables have to shrink again. Only names with fencing counters stay
//! the same, as a counter stays forever. No lease is longer than two seconds.

use rlock_client::Locks;
use rlock_testing::{Client, Random, Reply, Server};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Threads that send commands; and clients as processes have them, each with its tasks.
const CALLERS: u64 = 6;
const PROCESSES: u64 = 3;
const TASKS: u64 = 8;

/// How long a client does nothing between its cycles, in ms.
const PAUSE_MS: (u64, u64) = (12, 48);

/// Each client uses these names for a minute.
const NAMES: u64 = 20;

/// What all clients of a run share.
struct Shared {
    socket: PathBuf,
    start: Instant,
    is_over: AtomicBool,
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

    /// Whether the lock was granted.
    fn acquire(&self, client: &mut Client, command: &str) -> bool {
        match client.say(command) {
            Reply::Nil => true,
            Reply::List(list) => list.first() == Some(&Reply::Nil),
            Reply::Error(line) => {
                self.report(&line);
                false
            }
            Reply::Int(_) | Reply::Text(_) => false,
        }
    }
}

pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

impl Load {
    pub fn begin(server: &Server) -> Self {
        let shared = Arc::new(Shared {
            socket: server.socket(),
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            unexpected: Mutex::default(),
        });
        let work = |seed: u64, work: fn(&Shared, &mut Random, u64)| {
            let shared = Arc::clone(&shared);
            spawn(move || work(&shared, &mut Random::from(seed), seed))
        };
        let mut threads: Vec<_> = (0..CALLERS).map(|seed| work(seed, call)).collect();
        threads.extend([work(100, answer), work(101, answer), work(102, hold), work(103, vanish)]);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        for process in 0..PROCESSES {
            let address = format!("redis+unix://{}", shared.socket.display());
            let locks = runtime.block_on(Locks::connect(address.as_str())).expect("the server accepts connections");
            for task in 0..TASKS {
                runtime.spawn(guard(Arc::clone(&shared), locks.clone(), 1_000 * (1 + process) + task));
            }
        }
        Self { shared, threads, runtime }
    }

    pub fn unexpected(&self) -> u64 {
        self.shared.unexpected.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Ends all clients. What they should not have been told, and how often.
    pub fn end(self) -> BTreeMap<String, u64> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.report("a client has failed");
            }
        }
        // Tasks see it within their longest wait.
        self.runtime.shutdown_timeout(Duration::from_secs(10));
        std::mem::take(&mut *self.shared.unexpected.lock().unwrap_or_else(PoisonError::into_inner))
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
            // Its lease ends.
            14 => (format!("ACQUIRE {plain} {holder} 100 WAIT 300"), Vec::new()),
            _ => {
                client.say(&format!("DEL {plain}"));
                continue;
            }
        };
        if shared.acquire(&mut client, &format!("RLOCK.{acquire}")) {
            pause(random);
            for command in release {
                if let Reply::Error(line) = client.say(&format!("RLOCK.{command}")) {
                    shared.report(&line);
                }
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
                0 => drop(client.say(&format!("RLOCK.RELEASE {name} {holder}"))),
                1 => {}
                _ => {
                    let value = "v".repeat(usize::try_from(random.between((1, 4_096))).expect("a length"));
                    drop(client.say(&format!("RLOCK.ANSWER {name} {holder} {value} KEEP 1000")));
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
    super::until_held(&mut client, &format!("RLOCK.ACQUIRE {KEPT} holder 2000"));
    while shared.goes_on() {
        sleep(Duration::from_millis(500));
        if client.say(&format!("RLOCK.RENEW {KEPT} holder 2000")) != Reply::Int(1) {
            shared.report("the kept lock was lost");
        }
    }
    client.say(&format!("RLOCK.RELEASE {KEPT} holder ALL"));
}

/// Clients that wait and disconnect, are killed while they wait, or wait by a session that nobody polls again.
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
            client.say(&format!("RLOCK.EVENTS {session} ACK 0 TTL 1000"));
            client.say(&format!("RLOCK.ACQUIRE {KEPT} gone-{number} 2000 WAIT 60000 SESSION {session} 1"));
        } else {
            let id = client.say("CLIENT ID").as_int();
            client.send(&format!("RLOCK.ACQUIRE {KEPT} gone-{number} 2000 WAIT 60000").split(' ').collect::<Vec<_>>());
            if random.is(50) {
                operator.say(&format!("CLIENT KILL ID {id}"));
            }
        }
        drop(client);
        pause(random);
        pause(random);
    }
}

/// Locks by `rlock-client`, which waits by tickets: released, dropped, or given up while it waits.
async fn guard(shared: Arc<Shared>, locks: Locks, seed: u64) {
    let mut random = Random::from(seed);
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
        if let Err(error) = ended {
            shared.report(&error);
        }
        tokio::time::sleep(Duration::from_millis(random.between((10, 100)))).await;
    }
}

async fn work<F>(
    guard: Result<rlock_client::Guard<F>, rlock_client::Error>,
    random: &mut Random,
) -> Result<(), String> {
    match guard {
        Ok(guard) => {
            tokio::time::sleep(Duration::from_millis(random.between(PAUSE_MS))).await;
            // A guard that is dropped is released in the background.
            if random.is(80) { guard.release().await.map_err(|error| error.to_string()) } else { Ok(()) }
        }
        // On a busy machine a short limit may be over before the server's reply is read.
        Err(error) if error.is_timeout() || error.is_unavailable() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
