//! The one timer of the module: armed for the earliest alarm, or for at once when there is work to do.
//!
//! It is armed only while there is something to wait for, or a subscription to give back. A timer that goes off too early
//! finds nothing due, and is armed anew; stopping it each time would cost more.
//!
//! The server's timers go by its wall clock: when that is set back, a timer armed before goes off later by as much,
//! even one that was for at once. So a timer whose time of arming is later than now counts as none, and is armed anew.

use super::host::Server;
use super::state::{self, Armed};
use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use crate::server::ffi::latency;
use redis_module::raw;
use rlock_core::lock::UnixMs;
use std::ffi::c_void;
use std::ptr;

/// With more waiters and sessions, a debug build does not check all of them each time.
const CHECKED_MAX: usize = 50;

/// What the server calls when the timer goes off.
pub(super) type OnTimer = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut c_void);

/// Makes sure that the timer goes off no later than the next alarm, after a change to the waiters.
pub(super) fn arm(context: &Context, on_timer: OnTimer) {
    let (now, timer) = (context.now(), &state::get().timer);
    // Whoever has the engine arms the timer when it is done.
    let Ok(mut engine) = state::engine() else { return };
    engine.read_notes(&Server::new(context));
    let is_small = engine.length().saturating_add(engine.sessions()) <= CHECKED_MAX;
    debug_assert!(!is_small || engine.fault().is_none(), "{:?}", engine.fault());
    let at_once = (!state::get().clients.borrow().unanswered.is_empty()).then_some(UnixMs::MIN);
    let due = [at_once, engine.wakes_at(now), state::get().listening.borrow_mut().ends_at(engine.length() == 0, now)];
    let (time, serving_ms) = (due.into_iter().flatten().min(), engine.take_serving_ms());
    drop(engine);
    if let Some(ms) = serving_ms {
        latency::took(context, c"rlock-serve", ms);
    }
    if time.is_some_and(|time| timer.get().is_some_and(|armed| armed.is_in_time_for(time, now))) {
        return;
    }
    if let Some(armed) = timer.take() {
        // SAFETY: the timer is armed, so it is not the one that is just going off.
        unsafe { api!(RedisModule_StopTimer(context.as_ptr(), armed.id, ptr::null_mut())) };
    }
    timer.set(time.map(|time| {
        let period = time.saturating_sub(now).max(0);
        // SAFETY: the context is alive; the callback takes no data.
        let id = unsafe { api!(RedisModule_CreateTimer(context.as_ptr(), period, Some(on_timer), ptr::null_mut())) };
        Armed { id, time, since: now }
    }));
}

/// The same, after an event that needs a look: for thousands of keys in one turn the timer is armed only once.
pub(super) fn arm_at_once(context: &Context, on_timer: OnTimer) {
    if !state::get().timer.get().is_some_and(|armed| armed.is_in_time_for(UnixMs::MIN, context.now())) {
        arm(context, on_timer);
    }
}
