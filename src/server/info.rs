//! The section of INFO: what happened since the module was loaded, and how many clients wait now.
//!
//! Monitoring asks for it every few seconds, so all numbers are kept ready, and none is counted for it.

use crate::server::ffi::api::api;
use crate::server::ffi::context::{Context, clock_ms};
use crate::server::ffi::panics::guarded;
use crate::server::keys::followers;
use crate::server::waiting::state;
use redis_module::raw;
use rlock_core::waiting::Counters;
use std::ffi::{CStr, c_int};

pub fn register(context: &Context) {
    // SAFETY: the context is alive, and the callback is a function of ours.
    unsafe { api!(RedisModule_RegisterInfoFunc(context.as_ptr(), Some(report))) };
}

/// # Safety
/// To be called by the server, for INFO.
unsafe extern "C" fn report(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // During a crash report no data structure can be trusted.
    if for_crash_report != 0 {
        return;
    }
    guarded((), || {
        // Within a command of ours another module may ask.
        let Ok(engine) = state::engine() else { return };
        let lines = [counted_since_loading(engine.counters).as_slice(), &now(&engine)].concat();
        // SAFETY: the info context is the server's; names are copied. The section gets the module's name.
        unsafe {
            api!(RedisModule_InfoAddSection(info, std::ptr::null()));
            for (name, value) in lines {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}

fn counted_since_loading(counted: Counters) -> [(&'static CStr, u64); 16] {
    let waited = counted.waited;
    let [le_1, le_10, le_100, le_1000, le_10000, le_inf] = waited.up_to();
    [
        (c"grants", counted.granted_at_once.wrapping_add(waited.count())),
        (c"refusals", counted.refusals),
        (c"waits", counted.waits),
        (c"grants_after_wait", waited.count()),
        (c"hand_offs", counted.hand_offs),
        (c"timeouts", counted.timeouts),
        (c"cancelled", counted.cancelled),
        (c"lease_expiries", counted.lease_expiries),
        (c"breaks", counted.breaks),
        (c"wait_ms_le_1", le_1),
        (c"wait_ms_le_10", le_10),
        (c"wait_ms_le_100", le_100),
        (c"wait_ms_le_1000", le_1000),
        (c"wait_ms_le_10000", le_10000),
        (c"wait_ms_le_inf", le_inf),
        (c"wait_ms_sum", waited.sum_ms()),
    ]
}

fn now(engine: &state::Lent) -> [(&'static CStr, u64); 12] {
    let now = clock_ms();
    let oldest_wait_ms = engine.oldest_since().map_or(0, |since| now.saturating_sub(since));
    [
        (c"waiters", as_u64(engine.length())),
        (c"locks_with_waiters", as_u64(engine.locks())),
        (c"longest_queue", as_u64(engine.longest())),
        (c"oldest_wait_ms", u64::try_from(oldest_wait_ms).unwrap_or(0)),
        (c"sessions", as_u64(engine.sessions())),
        (c"sessions_unattended", as_u64(engine.unattended_sessions())),
        (c"tickets", as_u64(engine.waiting_tickets())),
        (c"events_unacknowledged", as_u64(engine.unacknowledged())),
        (c"revocations_due", as_u64(engine.revocations_due())),
        (c"followed", u64::from(followers::there_may_be())),
        (c"followed_by_replicas", u64::from(followers::there_may_be_replicas())),
        (c"keyspace_subscriptions", as_u64(state::subscriptions())),
    ]
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
