//! A server that stalled, alone or with its machine, still believes afterwards that replicas follow it, although they may have
//! another master now. It checks their last reports only once a second, and finds earlier ones in its sockets. So
//! `min-replicas-to-write` stops a master that is cut off, but not one that wakes up: that one would grant and renew locks
//! that others may have, since their grace is over.
//!
//! So if a grace is set, a server that has not had a turn for longer than [`STANDSTILL_MS`] grants and renews nothing until
//! its replicas' earlier reports are too old to count. Releases go on.

use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::api::{self, MainThread};
use crate::server::ffi::context::{Context, clock_us, steady_ms};
use crate::server::keys::followers;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::c_void;

/// A shorter stall does no harm: a failover takes longer than `min-replicas-max-lag` by more than that. If nothing keeps it,
/// the server has a turn at least each second.
const STANDSTILL_MS: i64 = 2_000;

/// The server compares whole seconds, and does so once a second.
const ROUNDING_MS: i64 = 2_000;

static STANDSTILL: MainThread<Standstill> = MainThread::new();

#[derive(Default)]
struct Standstill {
    /// For how long a replica's report counts; None if the server does not stop without reports.
    lag_ms: Cell<Option<i64>>,
    /// The time of the last turn, by two clocks: one stops with the machine, and the other may be set.
    last_turn: Cell<Option<[i64; 2]>>,
    until: Cell<i64>,
}

/// Subscribes to the server's turns, for the whole module: it has one callback for each event.
///
/// # Errors
/// If the server refuses.
pub fn begin(context: &Context) -> Result<(), String> {
    // SAFETY: the callback is for this event.
    unsafe { context.on(raw::REDISMODULE_EVENT_CRON_LOOP, has_a_turn) }
}

/// Takes the new lag, after the settings have changed.
pub(super) fn rest_on(lag_ms: Option<i64>) {
    STANDSTILL.get().lag_ms.set(lag_ms);
}

/// For how long nothing may be granted or renewed yet.
#[inline]
pub(super) fn left_ms() -> i64 {
    let standstill = STANDSTILL.get();
    match standstill.lag_ms.get() {
        Some(lag_ms) if SETTINGS.grace.get_ms() > 0 => standstill.look(lag_ms),
        _ => {
            // Time that is not watched must not count as a stall later on.
            standstill.last_turn.set(None);
            0
        }
    }
}

impl Standstill {
    fn look(&self, lag_ms: i64) -> i64 {
        let now = [steady_ms(), clock_us() / 1_000];
        let last = self.last_turn.replace(Some(now)).unwrap_or(now);
        let stood_ms = now.iter().zip(last).map(|(now, last)| now.saturating_sub(last)).max().unwrap_or(0);
        let [now, _] = now;
        if stood_ms > STANDSTILL_MS {
            let held_back_ms = lag_ms.saturating_add(ROUNDING_MS);
            self.until.set(now.saturating_add(held_back_ms));
            api::notice(&format!(
                "rlock: this server stalled for {stood_ms} ms: no lock is granted or renewed for {held_back_ms} ms \
                 (rlock.grace)"
            ));
        }
        self.until.get().saturating_sub(now).max(0)
    }
}

/// # Safety
/// To be called by the server, at each turn of its cron.
unsafe extern "C" fn has_a_turn(
    context: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    info: *mut c_void,
) {
    api::guarded((), || {
        left_ms();
        // SAFETY: the context is the server's, which passes this structure with this event.
        let (context, info) = unsafe { (Context::new(context), info.cast::<raw::RedisModuleCronLoopInfo>().as_ref()) };
        followers::has_a_turn(&context, info.map_or(10, |info| info.hz));
    });
}
