//! A round as its seed decides it: its clients, what they want, and where they find the servers. It is written to a
//! file, so that the processes of a round agree on it and a person can read it afterwards.

mod fleet;

pub use fleet::{Makeup, fleet, locks_with_answers};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    /// Where the journals are written.
    pub directory: PathBuf,
    pub address: Address,
    /// How long clients begin new attempts. After that they finish and release what they have begun.
    pub length_ms: u64,
    /// One group of clients for each process.
    pub groups: Vec<Vec<Client>>,
    /// For each group of clients the command of the adapter that its guards use; empty: `rlock-client` itself.
    #[serde(default)]
    pub adapters: Vec<String>,
}

/// Where clients find the servers: ports on loopback, each behind a proxy that injects network faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// Lines to the current master; each client uses one of them. The second may lead to another server for a while, so
    /// that there are two masters.
    Lines { ports: Vec<u16> },
    /// Sentinels, and their name of the set; and lines to the master, for clients that ask no sentinel.
    Sentinels { ports: Vec<u16>, name: String, lines: Vec<u16> },
    /// The nodes of a cluster.
    Cluster { ports: Vec<u16> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Unique in the run: "commands-17".
    pub name: String,
    pub seed: u64,
    pub kind: ClientKind,
    /// The index into [`Address::Lines`], modulo their number.
    pub line: u32,
    /// It wants one of these at a time, by chance; the first is wanted as often as all others together.
    pub locks: Vec<Lock>,
    pub habits: Habits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientKind {
    /// The commands, on its own connection.
    Commands,
    /// Redisson's way: scripts, and polling; on its own connection.
    Scripts,
    /// `rlock-client`; all guards of a process share its connections.
    Guards,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    pub kind: LockKind,
    /// Other locks; some are wanted together with it, all or none.
    pub others: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    Plain,
    ReadWrite,
    Permits,
    /// A plain lock for which most clients ask by ONCE; its holders send ANSWER. The answer is kept this long in
    /// ms: from and to.
    Once {
        keep_ms: (u64, u64),
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Habits {
    pub lease_ms: u64,
    /// The limits of its waits; chance chooses one. None is an attempt without a wait, 0 a wait without a limit.
    pub waits_ms: Vec<Option<u64>>,
    /// How long it keeps a lock, and how long it rests: from and to.
    pub hold_ms: (u64, u64),
    pub rest_ms: (u64, u64),
    /// Each of the following is a percentage.
    pub fenced: u8,
    /// How often it reads a read-write lock.
    pub reads: u8,
    /// It acquires the lock again while it has it.
    pub enters_again: u8,
    /// It keeps the lock for longer than the lease by renewing it.
    pub renews: u8,
    /// It does nothing for longer than the lease while it has the lock.
    pub stalls: u8,
    /// It ends without a release: it drops its connection, or its guard's task.
    pub dies: u8,
    /// It gives up during a wait.
    pub gives_up: u8,
    /// After a release it asks for the lock again under the same name, like a thread that takes turns.
    pub comes_back: u8,
}
