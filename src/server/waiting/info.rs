//! The section of INFO: what happened since the module was loaded, and who waits now.

use super::{guarded, room};
use crate::server::api::api;
use crate::server::context::Context;
use crate::server::followers;
use redis_module::raw;
use std::ffi::c_int;

pub(in crate::server) fn register(context: &Context) {
    // SAFETY: the context is alive, and the callback is a function of ours.
    unsafe { api!(RedisModule_RegisterInfoFunc(context.as_ptr(), Some(report))) };
}

/// # Safety
/// To be called by the server, for INFO.
unsafe extern "C" fn report(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // A report of a crash is no time to look at data structures.
    if for_crash_report != 0 {
        return;
    }
    guarded((), || {
        let followed = u64::from(followers::there_may_be());
        let (grants, refusals) = room::grants_and_refusals();
        let lines = room::with(|room| {
            let counted = room.counters;
            [
                (c"grants", grants.wrapping_add(counted.hand_offs)),
                (c"refusals", refusals),
                (c"waits", counted.waits),
                (c"hand_offs", counted.hand_offs),
                (c"timeouts", counted.timeouts),
                (c"cancelled", counted.cancelled),
                (c"waiters", as_u64(room.queues.length())),
                (c"locks_with_waiters", as_u64(room.queues.locks())),
                (c"longest_queue", as_u64(room.queues.longest())),
                (c"followed", followed),
            ]
        });
        // SAFETY: the info context is the server's; names are copied. The section gets the module's name.
        unsafe {
            api!(RedisModule_InfoAddSection(info, std::ptr::null()));
            for (name, value) in lines {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
