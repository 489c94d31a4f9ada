//! A server with a crowd of clients, each of which can wait for a lock of its own. The leases have no end in sight.

use crate::contenders::{LONG_LEASE, Module};
use crate::interrupt::Guarded;
use crate::servers;
use rlock_testing::{Client, Crowd, Reply, make_room_for, wait_until};

pub struct Waiters {
    pub server: Guarded,
    pub client: Client,
    crowd: Crowd,
}

/// What a connection that waits takes of memory, in the server and in this system, with a margin.
const BYTES_EACH: u64 = 60_000;

/// So many locks are taken before the first reply is read.
const TAKEN_AT_ONCE: usize = 1_000;

impl Waiters {
    /// All locks are held, and all clients are there, but nobody waits yet.
    ///
    /// # Errors
    /// Why there cannot be so many here.
    pub fn connect(size: usize) -> Result<Self, String> {
        make_room_for(size)?;
        has_memory_for(size)?;
        let clients = (size + 100).to_string();
        let server = servers::start(Module::Rlock, &["--maxclients", &clients]);
        let mut client = server.client();
        assert_eq!(client.say(&format!("CONFIG SET rlock.max-waiters {}", size.max(1))), rlock_testing::text("OK"));
        for first in (0..size).step_by(TAKEN_AT_ONCE) {
            let locks = first..size.min(first + TAKEN_AT_ONCE);
            let taken = client.say_all(locks.map(|lock| format!("RLOCK.ACQUIRE orders:{lock} holder {LONG_LEASE}")));
            assert!(taken.iter().all(|reply| *reply == Reply::Nil), "all locks are free");
        }
        let crowd = Crowd::connect(&server, size);
        let all = format!("connected_clients:{}\r", size + 1);
        wait_until("all are connected", || client.say("INFO clients").as_text().contains(&all));
        Ok(Self { server, client, crowd })
    }

    /// From now on each client waits.
    pub fn wait(&mut self) {
        let size = self.crowd.size();
        for number in 0..size {
            self.crowd.say(number, &format!("RLOCK.ACQUIRE orders:{number} waiter {LONG_LEASE} WAIT 0"));
        }
        let all = format!("rlock_waiters:{size}\r");
        wait_until("all wait", || self.client.say("INFO rlock").as_text().contains(&all));
    }
}

/// Else the machine would run out of it.
pub fn has_memory_for(size: usize) -> Result<(), String> {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).map(|kib| kib * 1024);
    let needed = size as u64 * BYTES_EACH;
    match available {
        Some(available) if available < needed => {
            Err(format!("some {} MB of memory are needed, and {} are there", needed >> 20, available >> 20))
        }
        _ => Ok(()),
    }
}

/// The number that INFO tells in this section, behind this name.
pub fn told_by_info(client: &mut Client, section: &str, name: &str) -> f64 {
    let info = client.say(&format!("INFO {section}"));
    let line = info.as_text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("INFO {section} has no number {name}"))
}
