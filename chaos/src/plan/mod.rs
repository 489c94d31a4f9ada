//! What a seed makes of a round: who takes part, what they want, and where they find the servers. It is written to a file,
//! so that the processes of a round agree on it and a person can read it afterwards.

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
    /// For how long clients begin something new. What they have begun then they bring to an end, and give back.
    pub length_ms: u64,
    /// A process each.
    pub crews: Vec<Vec<Client>>,
    /// For each crew the command of the adapter by which its guards come; empty: they are of `rlock-client` itself.
    #[serde(default)]
    pub adapters: Vec<String>,
}

/// Where clients find the servers: ports on loopback, behind each of which is the network that makes trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// Lines to whoever is the master; a client goes by one of them. The second may lead elsewhere for a while: so there
    /// are two masters.
    Lines { ports: Vec<u16> },
    /// Sentinels, and what they call the set; and lines to the master, for clients that ask no sentinel.
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
    /// Which of the [`Address::Lines`], counted on and on.
    pub line: u32,
    /// It wants one of these at a time, by chance; the first is wanted as often as all others together.
    pub locks: Vec<Lock>,
    pub habits: Habits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientKind {
    /// The bare commands, on a connection of its own.
    Commands,
    /// Redisson's way: scripts, and asking again; on a connection of its own.
    Scripts,
    /// `rlock-client`; all those of a process share its connections.
    Guards,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    pub kind: LockKind,
    /// Those of which some are wanted together with it, all or none.
    pub others: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    Plain,
    ReadWrite,
    Permits,
    /// A plain lock that most clients ask for by ONCE, and whose holders send ANSWER. It is kept for so many ms: from and to.
    Once {
        keep_ms: (u64, u64),
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Habits {
    pub lease_ms: u64,
    /// The limits of its waits: one of these by chance; none is an attempt without a wait, 0 a wait for ever.
    pub waits_ms: Vec<Option<u64>>,
    /// How long it keeps a lock, and how long it wants none: from and to.
    pub hold_ms: (u64, u64),
    pub rest_ms: (u64, u64),
    /// Each of these in hundredths.
    pub fenced: u8,
    /// Of read-write locks it reads.
    pub reads: u8,
    /// It takes the lock once more while it has it.
    pub enters_again: u8,
    /// It keeps the lock for longer than the lease by renewing it.
    pub renews: u8,
    /// It does nothing for longer than the lease while it has the lock.
    pub stalls: u8,
    /// It goes without giving the lock back: drops its connection, or its guard's task.
    pub dies: u8,
    /// It gives up a wait in the middle.
    pub gives_up: u8,
    /// Having given the lock back it asks for it again under the same name, as a thread does that wants it in turns.
    pub comes_back: u8,
}
