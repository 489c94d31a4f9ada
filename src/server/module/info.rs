//! The section of INFO: what happened since the module was loaded, and how many clients wait now.
//!
//! Monitoring asks for it every few seconds, so all numbers are kept ready, and none is counted for it.

use crate::server::ffi::api::api;
use crate::server::ffi::context::{Context, clock_ms};
use crate::server::ffi::panics::guarded;
use crate::server::keys::followers;
use crate::server::waiting::{listening, state};
use redis_module::raw;
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
        let lines = [counted_since_loading().as_slice(), &now()].concat();
        // SAFETY: the info context is the server's; names are copied. The section gets the module's name.
        unsafe {
            api!(RedisModule_InfoAddSection(info, std::ptr::null()));
            for (name, value) in lines {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}

fn counted_since_loading() -> [(&'static CStr, u64); 16] {
    let (grants, refusals) = state::grants_and_refusals();
    let counted = state::with(|table| table.counters);
    let waited = counted.waited;
    let [le_1, le_10, le_100, le_1000, le_10000, le_inf] = waited.up_to();
    [
        (c"grants", grants.wrapping_add(waited.count())),
        (c"refusals", refusals),
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

fn now() -> [(&'static CStr, u64); 12] {
    let now = clock_ms();
    let (waiters, locks, longest, since) =
        state::with(|table| (table.length(), table.locks(), table.longest(), table.oldest_since()));
    let oldest_wait_ms = since.map_or(0, |since| now.saturating_sub(since));
    let [sessions, unattended, tickets, events, revocations] = state::with(|table| {
        let (unattended, tickets) = (table.unattended_sessions(), table.waiting_tickets());
        [table.sessions(), unattended, tickets, table.unacknowledged(), table.revocations_due()]
    });
    [
        (c"waiters", as_u64(waiters)),
        (c"locks_with_waiters", as_u64(locks)),
        (c"longest_queue", as_u64(longest)),
        (c"oldest_wait_ms", u64::try_from(oldest_wait_ms).unwrap_or(0)),
        (c"sessions", as_u64(sessions)),
        (c"sessions_unattended", as_u64(unattended)),
        (c"tickets", as_u64(tickets)),
        (c"events_unacknowledged", as_u64(events)),
        (c"revocations_due", as_u64(revocations)),
        (c"followed", u64::from(followers::there_may_be())),
        (c"followed_by_replicas", u64::from(followers::there_may_be_replicas())),
        (c"keyspace_subscriptions", as_u64(listening::subscriptions())),
    ]
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
