//! Telling the server's latency monitor of what took long, so that LATENCY names it beside what else is slow.
//!
//! Only that which can be long is timed, and the server is told of nothing shorter than its `latency-monitor-threshold`.

use super::api::api;
use super::context::Context;
use super::server_setting;
use crate::lock::{UnixMs, decimal};
use std::ffi::CStr;

/// From so many read holds on, what is done with them is timed. For fewer, not even the clock is read.
const MANY: i64 = 100;

/// Times what is done with so many read holds or readers, until it is dropped.
pub(super) fn of_many(context: &Context, number: i64) -> Option<Timed<'_>> {
    (number >= MANY).then(|| Timed { context, began: context.now() })
}

pub(super) struct Timed<'a> {
    context: &'a Context,
    began: UnixMs,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        since(self.context, c"rlock-read-holds", self.began);
    }
}

/// Tells of what began then and ends now.
pub(super) fn since(context: &Context, event: &CStr, began: UnixMs) {
    took(context, event, context.now().saturating_sub(began));
}

pub(super) fn took(context: &Context, event: &CStr, ms: i64) {
    // What takes less than a ms is never told of, so most of the time the threshold need not be asked for.
    if ms > 0 && threshold_ms(context).is_some_and(|threshold| ms >= threshold) {
        // SAFETY: the name is copied.
        unsafe { api!(RedisModule_LatencyAddSample(event.as_ptr(), ms)) };
    }
}

/// None if nothing is monitored, which the server's function would not heed.
fn threshold_ms(context: &Context) -> Option<i64> {
    let threshold = server_setting::value(context, c"latency-monitor-threshold")?;
    decimal(&threshold).filter(|threshold| *threshold > 0)
}
