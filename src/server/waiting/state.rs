//! All that the module keeps of waiting between two calls of the server, and the counters that every command uses.

use super::blocked_client::{BlockedClient, ClientKey};
use super::listening::Listening;
use crate::server::ffi::main_thread::MainThread;
use foldhash::fast::RandomState;
use redis_module::raw;
use rlock_core::lock::UnixMs;
use rlock_core::waiting::{SessionId, Table, Ticket};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

#[derive(Default)]
pub(super) struct State {
    pub table: Table<BlockedClient>,
    /// What each client waits for that is blocked, or unblocked and not yet answered.
    pub blocked: HashMap<ClientKey, Blocked, RandomState>,
    /// Clients, by their number, that the server unblocked before they could get their grant.
    pub undelivered: Vec<u64>,
    pub timer: Option<Armed>,
    pub events: Events,
    pub listening: Listening,
}

/// What a blocked client waits for.
#[derive(Clone, Copy)]
pub(super) enum Blocked {
    ForLock(Ticket),
    ForEvents {
        session: SessionId,
        /// When the call began: see [`super::turn::monotonic_us`].
        began_us: u64,
        /// Whether it was unblocked, and is about to be answered.
        is_woken: bool,
    },
    /// It waits until all of its tickets are taken back.
    Cancelling,
}

/// What the module keeps about the server's events.
#[derive(Default)]
pub(super) struct Events {
    pub hears_clients: bool,
    /// Whether the server caused the last event by itself.
    pub is_sweep: bool,
    /// Whether a post-notification job is set and has not run.
    pub job_is_set: bool,
}

/// The timer, armed.
#[derive(Clone, Copy)]
pub(super) struct Armed {
    pub id: raw::RedisModuleTimerID,
    /// When the timer goes off.
    pub time: UnixMs,
    /// When the timer was armed.
    pub since: UnixMs,
}

impl Armed {
    /// Whether the timer goes off at `time` at the latest, by a clock that now says `now`.
    pub fn is_in_time_for(self, time: UnixMs, now: UnixMs) -> bool {
        self.time <= time && self.since <= now
    }
}

static STATE: MainThread<Option<State>> = MainThread::new(None);
static WAITERS: AtomicUsize = AtomicUsize::new(0);
static HAS_SESSIONS: AtomicBool = AtomicBool::new(false);
static GRANTS: AtomicU64 = AtomicU64::new(0);
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// Lends the whole state. The closure must call nothing that could call back.
#[inline]
pub(super) fn with_all<R>(use_state: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| {
        let state = match state {
            Some(state) => state,
            None => begin(state),
        };
        let result = use_state(state);
        WAITERS.store(state.table.length(), Relaxed);
        HAS_SESSIONS.store(state.table.has_sessions(), Relaxed);
        result
    })
}

#[cold]
fn begin(state: &mut Option<State>) -> &mut State {
    state.insert(State::default())
}

/// Lends the waiters' table. The closure must call nothing that could call back.
#[inline]
pub fn with<R>(use_table: impl FnOnce(&mut Table<BlockedClient>) -> R) -> R {
    with_all(|state| use_table(&mut state.table))
}

/// Whether no client waits: every command asks this first, so it costs next to nothing.
pub(super) fn is_empty() -> bool {
    WAITERS.load(Relaxed) == 0
}

/// Whether there are sessions, or something is left of one.
pub(super) fn has_sessions() -> bool {
    HAS_SESSIONS.load(Relaxed)
}

pub(super) fn count_grant() {
    count(&GRANTS);
}

pub(super) fn count_refusal() {
    count(&REFUSALS);
}

/// Without an atomic addition, which is dear: there is one thread.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

pub fn grants_and_refusals() -> (u64, u64) {
    (GRANTS.load(Relaxed), REFUSALS.load(Relaxed))
}
