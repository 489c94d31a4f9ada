//! The module's section of INFO: what happened since the module was loaded, and how many clients wait now.
//!
//! Monitoring asks for it every few seconds, so all numbers are kept ready: nothing is counted on request.

use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::api::api;
use crate::server::ffi::api::guarded;
use crate::server::ffi::context::{Context, clock_ms, steady_ms};
use crate::server::keys::followers;
use crate::server::waiting::{BlockedClient, state};
use redis_module::raw;
use rlock_core::waiting::{Counters, Engine};
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
        // Another module may ask within a command of ours, which has the engine.
        let Ok(engine) = state::engine() else { return };
        let counted = counted(&engine.counters).into_iter();
        // SAFETY: the info context is the server's; names are copied. The section gets the module's name.
        unsafe {
            api!(RedisModule_InfoAddSection(info, std::ptr::null()));
            for (name, value) in counted.chain(now(&engine)) {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}

/// Counted since the module was loaded.
fn counted(counted: &Counters) -> [(&'static CStr, u64); 19] {
    let waited = counted.waited;
    let [le_1, le_10, le_100, le_1000, le_10000, le_inf] = waited.up_to();
    [
        (c"grants", counted.granted_at_once.wrapping_add(waited.count())),
        (c"refusals", counted.refusals),
        (c"turned_away", counted.turned_away),
        (c"waits", counted.waits),
        (c"grants_after_wait", waited.count()),
        (c"hand_offs", counted.hand_offs),
        (c"timeouts", counted.timeouts),
        (c"cancelled", counted.cancelled),
        (c"lease_expiries", counted.lease_expiries),
        (c"breaks", counted.breaks),
        (c"answers_stored", counted.answers_stored),
        (c"answers_given", counted.answers_given),
        (c"wait_ms_le_1", le_1),
        (c"wait_ms_le_10", le_10),
        (c"wait_ms_le_100", le_100),
        (c"wait_ms_le_1000", le_1000),
        (c"wait_ms_le_10000", le_10000),
        (c"wait_ms_le_inf", le_inf),
        (c"wait_ms_sum", waited.sum_ms()),
    ]
}

fn now(engine: &Engine<BlockedClient>) -> [(&'static CStr, u64); 13] {
    let oldest_wait_ms = engine.oldest_since().map_or(0, |since| clock_ms().saturating_sub(since));
    let grace_left_ms = engine.grace_left_ms(SETTINGS.grace.get_ms(), steady_ms());
    [
        (c"waiters", engine.waits() as u64),
        (c"locks_with_waiters", engine.queues().locks() as u64),
        (c"longest_queue", engine.queues().longest() as u64),
        (c"oldest_wait_ms", u64::try_from(oldest_wait_ms).unwrap_or(0)),
        (c"sessions", engine.sessions().len() as u64),
        (c"sessions_unattended", engine.sessions().abandoned() as u64),
        (c"tickets", engine.sessions().waiting as u64),
        (c"events_unacknowledged", engine.sessions().events as u64),
        (c"revocations_due", engine.releases_due() as u64),
        (c"grace_left_ms", u64::try_from(grace_left_ms).unwrap_or(0)),
        (c"followed", u64::from(followers::there_may_be())),
        (c"followed_by_replicas", u64::from(followers::there_may_be_replicas())),
        (c"keyspace_subscriptions", state::subscriptions() as u64),
    ]
}
