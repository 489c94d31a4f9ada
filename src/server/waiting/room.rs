//! The one room of this server, and the counters that commands touch on their way past it.

use super::kept_client::KeptClient;
use crate::lock::Room;
use crate::server::main_thread::MainThread;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static ROOM: MainThread<Option<Room<KeptClient>>> = MainThread::new(None);
static WAITERS: AtomicUsize = AtomicUsize::new(0);
static GRANTS: AtomicU64 = AtomicU64::new(0);
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// Lends the room. Nothing may be called meanwhile that could call back.
pub(super) fn with<R>(use_room: impl FnOnce(&mut Room<KeptClient>) -> R) -> R {
    ROOM.with(|room| {
        let room = match room {
            Some(room) => room,
            None => room.insert(Room::default()),
        };
        let result = use_room(room);
        WAITERS.store(room.length(), Ordering::Relaxed);
        result
    })
}

/// Whether nobody waits: what every command asks first, so it costs next to nothing.
pub(super) fn is_empty() -> bool {
    WAITERS.load(Ordering::Relaxed) == 0
}

pub fn count_grant() {
    count(&GRANTS);
}

pub fn count_refusal() {
    count(&REFUSALS);
}

/// Without an atomic addition, which is dear: there is one thread.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

pub(super) fn grants_and_refusals() -> (u64, u64) {
    (GRANTS.load(Ordering::Relaxed), REFUSALS.load(Ordering::Relaxed))
}
