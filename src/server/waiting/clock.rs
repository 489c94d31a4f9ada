//! The one timer of the module: armed for the earliest alarm, or for at once when something is to be put in order.
//!
//! It is armed only while there is something to wait for, since a server does not unload a module that has a timer. One
//! that goes off too early finds nothing due, and is armed anew; stopping it each time would cost more.
//!
//! The server's timers go by its wall clock: when that is set back, one that was armed before goes off later by as much, even
//! one that was for at once. So a timer that was armed later than now is none, and is armed anew.

use super::world::Server;
use super::{guarded, kept_client, room};
use crate::lock::{UnixMs, serve};
use crate::server::api::api;
use crate::server::context::Context;
use crate::server::latency;
use redis_module::raw;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// When the timer goes off; `UNARMED` if it does not.
static ARMED_FOR: AtomicI64 = AtomicI64::new(UNARMED);
/// When it was armed.
static ARMED_AT: AtomicI64 = AtomicI64::new(UnixMs::MIN);
static TIMER: AtomicU64 = AtomicU64::new(0);
const UNARMED: i64 = i64::MAX;

/// Makes sure that the timer goes off no later than the next alarm, after something was done for those who wait.
pub(super) fn arm(context: &Context) {
    let now = context.now();
    let (time, serving_ms) = room::with(|room| (room.wakes_at(now), room.take_serving_ms()));
    if let Some(ms) = serving_ms {
        latency::took(context, c"rlock-serve", ms);
    }
    let armed_for = ARMED_FOR.load(Ordering::Relaxed);
    match time {
        Some(time) if armed_for <= time && !was_set_back(now) => {}
        Some(time) => {
            stop(context, armed_for);
            let period = time.saturating_sub(now).max(0);
            // SAFETY: the context is alive; the callback takes no data.
            let timer =
                unsafe { api!(RedisModule_CreateTimer(context.as_ptr(), period, Some(goes_off), ptr::null_mut())) };
            TIMER.store(timer, Ordering::Relaxed);
            ARMED_FOR.store(time, Ordering::Relaxed);
            ARMED_AT.store(now, Ordering::Relaxed);
        }
        None => stop(context, armed_for),
    }
}

/// The same, after something has happened that is to be looked at: for thousands of keys in one turn the timer is armed once.
pub(super) fn arm_at_once(context: &Context) {
    if ARMED_FOR.load(Ordering::Relaxed) != UnixMs::MIN || was_set_back(context.now()) {
        arm(context);
    }
}

/// Whether the clock has been since the timer was armed.
fn was_set_back(now: UnixMs) -> bool {
    now < ARMED_AT.load(Ordering::Relaxed)
}

fn stop(context: &Context, armed_for: UnixMs) {
    if armed_for != UNARMED {
        // SAFETY: the timer is armed, so it is not the one that is just going off.
        unsafe { api!(RedisModule_StopTimer(context.as_ptr(), TIMER.load(Ordering::Relaxed), ptr::null_mut())) };
        ARMED_FOR.store(UNARMED, Ordering::Relaxed);
    }
}

/// # Safety
/// To be called by the server, for the timer.
unsafe extern "C" fn goes_off(context: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // The server frees a timer after it went off; to stop it now would be once too often.
    ARMED_FOR.store(UNARMED, Ordering::Relaxed);
    guarded((), || {
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        catch_up(&context);
    });
}

/// Does what is due, and sees to it that the rest is done in time.
pub(super) fn catch_up(context: &Context) {
    kept_client::close_who_was_not_told(context);
    serve::catch_up(&Server::new(context));
    arm(context);
}
