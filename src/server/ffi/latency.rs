//! Reports long work to the server's latency monitor, so that LATENCY names it with everything else that is slow.
//!
//! Only work that can be long is timed. It is reported if it takes at least `latency-monitor-threshold`.

use super::api::api;
use super::call;
use super::context::Context;
use rlock_core::lock::{UnixMs, decimal};
use std::ffi::CStr;

/// Work on at least this many read holds is timed. For fewer, not even the clock is read.
const MANY: i64 = 100;

/// Times the work on this many read holds.
pub fn of_many(context: &Context, number: i64, work: impl FnOnce()) {
    let began = (number >= MANY).then(|| context.now());
    work();
    if let Some(began) = began {
        since(context, c"rlock-read-holds", began);
    }
}

/// Reports what began at `began` and ends now.
pub fn since(context: &Context, event: &CStr, began: UnixMs) {
    took(context, event, context.now().saturating_sub(began));
}

pub fn took(context: &Context, event: &CStr, ms: i64) {
    // Work of less than a ms is never reported, so the threshold is rarely needed.
    if ms > 0 && threshold_ms(context).is_some_and(|threshold| ms >= threshold) {
        // SAFETY: the name is copied.
        unsafe { api!(RedisModule_LatencyAddSample(event.as_ptr(), ms)) };
    }
}

/// None if nothing is monitored: the server's function for samples does not check that.
fn threshold_ms(context: &Context) -> Option<i64> {
    let threshold = call::server_setting(context, c"latency-monitor-threshold")?;
    decimal(&threshold).filter(|threshold| *threshold > 0)
}
