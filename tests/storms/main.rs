//! Thousands of waiters that are granted, notified or sent away at the same moment, and what it costs all clients.
//!
//! A binary of its own, since such a batch needs the machine for itself: one test runs at a time, each on its own
//! server. Every round prints its measurements: `cargo test --test storms -- --nocapture`.
#![allow(clippy::unwrap_used)]

mod answers;
mod bad_processes;
mod deadlines;
mod follower;
mod freed;
mod lease_ends;
mod leaving;
mod looks;
mod many_locks;
mod one_lock;
mod readers;
mod scene;
mod session_ends;
mod setting;
mod slowness;
mod tickets;

use rlock_testing::{Reply, batch_of};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long any client may wait for an answer while a batch is served. A monitor takes a server that is silent for longer
/// for dead. A quiet machine takes far less; here other processes may have the processors.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// One storm at a time: two would disturb each other's measurements.
fn alone() -> MutexGuard<'static, ()> {
    static STORM: Mutex<()> = Mutex::new(());
    STORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many clients a storm has, if the module as it is shipped gets `wanted`: the bounds are for that. A debug build checks
/// itself for other things, takes several times as long for each client, and gets a quarter of them.
fn batch_size(wanted: usize) -> usize {
    batch_of(size(wanted))
}

/// The same for what takes no connection.
fn size(wanted: usize) -> usize {
    let is_debug_build = cfg!(debug_assertions) && std::env::var_os("RLOCK_MODULE").is_none();
    if is_debug_build { wanted / 4 } else { wanted }
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap()
}

fn is_ok(reply: &Reply) -> bool {
    reply.words() == ["OK"]
}
