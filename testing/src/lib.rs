//! The base of the tests: real servers, replicas, clusters and sentinels; connections that read any reply, waiting
//! ones, batches of them, sessions, and bystanders; INFO by its names, a tap on the replication stream, and a faulty
//! network.
//!
//! - `RLOCK_SERVER`: the server's binary, Redis or Valkey; `redis-server` if it is not set
//! - `RLOCK_MODULE`: the module; if it is not set, the one that cargo built next to the test
//! - `RLOCK_PROBES`: a module with the feature `panic-probe`, for a platform that cannot load the one of the tests
//! - `RLOCK_DEV`: the program `rlock`: `rlock dev` then takes the place of a server with the module
//! - `RLOCK_LEAKS`: if it is set, servers are asked to end, so that one with the address sanitizer looks for leaks

mod batch;
mod bystander;
mod client;
mod cluster;
mod dump;
mod info;
mod leaks;
#[cfg(feature = "network")]
pub mod network;
mod processor;
mod random;
#[cfg(doctest)]
mod readme;
mod replica;
pub mod resp;
pub mod scripts;
mod sentinel;
mod server;
mod session;
mod signal;
mod tap;
mod waiting;

pub use batch::{Answer, Batch, batch_of, make_room_for};
pub use bystander::{Bystander, Testimony};
pub use client::{Client, Reply, list, text};
pub use cluster::{Cluster, SlotMove};
pub use info::Info;
pub use processor::{Wanted, was_wanted_by, was_wanted_here};
pub use random::Random;
pub use sentinel::Watched;
pub use server::{Server, ServerVersion, Start, debug_module, dev_program, free_port, module};
pub use session::{Event, Session};
pub use signal::{Signal, send_signal, send_signal_to_group};
pub use tap::Tap;
pub use waiting::start_waiting;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a condition may take to hold. Far more than any condition needs, so that only a real failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls until the condition holds.
///
/// # Panics
/// If it does not hold within [`PATIENCE`].
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_for_as_long_as(PATIENCE, what, condition);
}

/// The same, for what takes longer.
///
/// # Panics
/// If the condition does not hold within that time.
pub fn wait_for_as_long_as(patience: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // Not at once: the process that is waited for needs the processor, too.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The clock of this machine, which is the servers' as well.
#[must_use]
pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_millis()).expect("it is not that late")
}

/// Checks the exact lease that a command gave, by the server's clock before and after the command.
pub struct LeaseCheck {
    before: i64,
}

impl LeaseCheck {
    pub fn begin(client: &mut Client) -> Self {
        Self { before: client.time_ms() }
    }

    /// Asserts that `key` got a lease of `lease_ms` from a command that ran since the check began.
    pub fn lease_is(&self, client: &mut Client, key: &str, lease_ms: i64) {
        let expiry = client.expiry(key);
        let after = client.time_ms();
        let (earliest, latest) = (self.before + lease_ms, after + lease_ms);
        assert!((earliest..=latest).contains(&expiry), "{key} ends at {expiry}, not in {earliest}..={latest}");
    }
}
