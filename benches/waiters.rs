//! What waiters cost: `cargo bench --bench waiters`, with valgrind installed.
//!
//! - the instructions of one hand-off, and of a lock and unlock of *another* lock, with 1, 100 and 10,000 clients waiting:
//!   they should not depend on how many wait
//! - the memory of a waiter: the module's own, and what the server spends on a client that it keeps
//!
//! Instructions are counted by callgrind, inside the commands and the answers to waiters, as the slope between two run lengths, since wall time lies on shared machines.

use rlock::lock::{Acquire, Client as Kept, Kind, Lease, LockName, Room, Waiter};
use rlock_testing::{Client, Reply, Server, wait_until};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn main() {
    memory();
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("instructions are not counted: install valgrind");
        return;
    }
    println!("{:>8} {:>22} {:>26}", "waiters", "hand-off, instructions", "another lock, instructions");
    for waiters in [1, 100, 10_000] {
        let [hand_off, other] = [Load::HandOffs, Load::AnotherLock].map(|load| instructions(waiters, load));
        println!("{waiters:>8} {hand_off:>22} {other:>26}");
    }
}

#[derive(Clone, Copy)]
enum Load {
    /// The lock goes to the next one, and who had it waits again.
    HandOffs,
    /// A lock that nobody waits for is taken and released.
    AnotherLock,
}

/// Instructions per cycle, as the slope between a short run and a long one.
fn instructions(waiters: usize, load: Load) -> u64 {
    const SHORT: usize = 500;
    const LONG: usize = 2_500;
    let [short, long] = [SHORT, LONG].map(|cycles| run(waiters, load, cycles));
    long.saturating_sub(short) / (LONG - SHORT) as u64
}

/// All instructions of a server in which so many wait, for so many cycles.
fn run(waiters: usize, load: Load, cycles: usize) -> u64 {
    let server = Counted::start();
    // One has the lock, and the others wait.
    let mut clients: Vec<_> = (0..=waiters).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        wait_as(client, number);
    }
    assert_eq!(clients[0].receive(), Reply::Nil);
    let mut other = server.client();
    wait_until("all wait", || other.say("INFO rlock").as_text().contains(&format!("rlock_waiters:{waiters}\r")));
    for cycle in 0..cycles {
        match load {
            Load::AnotherLock => {
                other.say("RLOCK.ACQUIRE other holder 6000000");
                other.say("RLOCK.RELEASE other holder");
            }
            Load::HandOffs => {
                let holder = &mut clients[cycle % (waiters + 1)];
                holder.send(&["RLOCK.RELEASE", "k", &format!("h{cycle}")]);
                wait_as(holder, cycle + waiters + 1);
                assert_eq!(holder.receive(), Reply::Int(1));
                assert_eq!(clients[(cycle + 1) % (waiters + 1)].receive(), Reply::Nil);
            }
        }
    }
    server.end()
}

fn wait_as(client: &mut Client, number: usize) {
    client.send(&["RLOCK.ACQUIRE", "k", &format!("h{number}"), "6000000", "WAIT", "0"]);
}

/// A server under callgrind.
struct Counted {
    process: Child,
    directory: tempfile::TempDir,
}

impl Counted {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let module = std::env::var_os("RLOCK_MODULE").map_or_else(release_module, PathBuf::from);
        let process = Command::new("valgrind")
            .args(["--tool=callgrind", "--log-file=counted", "--collect-atstart=no"])
            .arg(
                std::env::var("CALLGRIND_OUT")
                    .map_or("--callgrind-out-file=/dev/null".to_owned(), |file| format!("--callgrind-out-file={file}")),
            )
            // Only what a command does, and what answers a client that was kept: the server's own chores, such as
            // looking after every connection now and then, are not the lock's.
            .args(["--toggle-collect=RedisModuleCommandDispatcher", "--toggle-collect=moduleHandleBlockedClients"])
            .args(["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--maxclients", "30000"])
            .arg("--loadmodule")
            .arg(module)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("valgrind and redis-server are there");
        let counted = Self { process, directory };
        wait_until("the server answers", || {
            Client::connect(&counted.socket()).is_ok_and(|mut client| client.is_served())
        });
        counted
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).expect("the server accepts connections")
    }

    fn end(mut self) -> u64 {
        self.client().send(&["SHUTDOWN", "NOSAVE"]);
        self.process.wait().expect("the server ends");
        let log = std::fs::read_to_string(self.directory.path().join("counted")).expect("callgrind's log");
        let collected = log.lines().find_map(|line| line.split("Collected : ").nth(1)).expect("a count");
        collected.trim().parse().expect("a number")
    }
}

fn release_module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/librlock.so")
}

struct Nobody(usize);

impl Kept for Nobody {
    type Id = usize;

    fn id(&self) -> usize {
        self.0
    }
}

fn memory() {
    const WAITERS: usize = 200_000;
    let before = resident();
    let mut room = Room::default();
    for number in 0..WAITERS {
        let holder = format!("b983c153-7421-469a-addb-44fb92259a1b:{number:06}");
        let want = Acquire { lease: Lease::from_ms(30_000).expect("a lease"), fenced: false };
        let waiter = Waiter { client: Nobody(number), holder: holder.as_bytes().into(), kind: Kind::Plain, want };
        let lock = LockName { database: 0, key: b"orders:42" };
        assert!(room.join(lock, waiter, 0, WAITERS, Some(number as i64)).is_ok());
    }
    println!("memory of a waiter: {} bytes of the module's own", (resident() - before) / WAITERS);
    drop(room);
    let server = Server::prepare().options(&["--maxclients", "5000"]).start();
    let mut watch = server.client();
    watch.say("RLOCK.ACQUIRE k holder 6000000");
    let mut clients: Vec<_> = (0..2_000).map(|_| server.client()).collect();
    for client in &mut clients {
        client.say("PING");
    }
    let idle = used_memory(&mut watch);
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&["RLOCK.ACQUIRE", "k", &format!("h{number}"), "6000000", "WAIT", "0"]);
    }
    wait_until("all wait", || watch.say("INFO rlock").as_text().contains("rlock_waiters:2000\r"));
    let waiting = used_memory(&mut watch);
    println!("and {} bytes in all that the server counts beyond an idle connection", (waiting - idle) / 2_000);
}

fn used_memory(client: &mut Client) -> usize {
    let info = client.say("INFO memory");
    let line = info.as_text().lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
    line.parse().expect("a number")
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
