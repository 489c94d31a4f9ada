//! What happens to everyone when thousands who wait are freed, told or sent away at the same moment.
//!
//! A binary of its own, since such a crowd needs the machine for itself: one test runs at a time, each on a server of its
//! own. Every round prints what it measured: `cargo test --test storms -- --nocapture`.
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
mod tickets;

use rlock_testing::{Reply, crowd_of};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest that anyone may have to wait for an answer while a crowd is served. A server that is silent for so long is
/// taken for dead by who watches it. On a quiet machine it is far less; here others may have the processors.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// One storm at a time: two would tell of each other.
fn alone() -> MutexGuard<'static, ()> {
    static STORM: Mutex<()> = Mutex::new(());
    STORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many clients a storm has, of those that are wanted of the module as it is shipped. The bounds are its bounds; a debug
/// build, which checks itself for other things, takes several times as long for each client and gets a quarter of them.
fn crowd_size(wanted: usize) -> usize {
    crowd_of(size(wanted))
}

/// The same of what takes no connection.
fn size(wanted: usize) -> usize {
    let is_debug_build = cfg!(debug_assertions) && std::env::var_os("RLOCK_MODULE").is_none();
    if is_debug_build { wanted / 4 } else { wanted }
}

/// By how much the bounds are wider on a server that was built to check itself, and takes several times as long for all that
/// it does: `RLOCK_SLOWNESS`, as whoever built it says.
fn slowness() -> u32 {
    std::env::var("RLOCK_SLOWNESS").map_or(1, |times| times.parse().expect("a number"))
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap()
}

fn is_ok(reply: &Reply) -> bool {
    reply.words() == ["OK"]
}
