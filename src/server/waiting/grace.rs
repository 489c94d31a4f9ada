//! When the grace after a failover or a restart begins, and when its settings change. [`rlock_core::waiting`] decides how long
//! no lock gets a new holder.

use super::callbacks;
use super::host::Server;
use super::{standstill, state};
use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::api::{flag, guarded};
use crate::server::ffi::context::Context;
use crate::server::ffi::this_server;
use redis_module::raw;
use std::ffi::{CStr, c_void};
use std::slice;

/// The beginnings of the settings that the grace relies on: its own, and those of its fences, also under their old name.
const WATCHED: [&[u8]; 3] = [b"rlock.grace", b"min-replicas", b"min-slaves"];

/// Call this as the last step of loading: if loading failed after it, its timer would stay set. A module that is loaded into a
/// running server does not start a grace: the server already knows everything about its locks.
///
/// # Errors
/// If the server refuses the subscription to its settings.
pub fn begin(context: &Context) -> Result<(), String> {
    // SAFETY: the callback is for this event.
    unsafe { context.on(raw::REDISMODULE_EVENT_CONFIG, settings_changed)? };
    standstill::begin(context)?;
    if SETTINGS.grace.get_ms() > 0 {
        let is_master = context.flags() & flag::IS_MASTER != 0;
        if let Some(mut engine) = state::engine().ok().filter(|_| is_master && this_server::is_starting(context)) {
            engine.begin_grace();
        }
        check_later(context);
    }
    Ok(())
}

/// Makes the timer check the settings, as soon as nothing of the server's is under way.
fn check_later(context: &Context) {
    state::get().grace_is_unchecked.set(true);
    callbacks::arm_timer(context);
}

/// # Safety
/// To be called by the server, when settings have changed.
unsafe extern "C" fn settings_changed(
    context: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _what: u64,
    info: *mut c_void,
) {
    guarded((), || {
        // SAFETY: the server passes, for this event, this structure, with as many names as it says, each ending with a NUL.
        let is_about_grace = unsafe {
            let info = info.cast::<raw::RedisModuleConfigChangeV1>().as_ref();
            let count = info.map_or(0, |info| usize::try_from(info.num_changes).unwrap_or(0));
            let names = info.map(|info| info.config_names).filter(|names| !names.is_null() && count > 0);
            let names = names.map_or(&[][..], |names| slice::from_raw_parts(names, count));
            names.iter().any(|name| {
                let name = CStr::from_ptr(*name).to_bytes().to_ascii_lowercase();
                WATCHED.iter().any(|watched| name.starts_with(watched))
            })
        };
        if !is_about_grace {
            return;
        }
        // SAFETY: the context is the server's.
        let context = unsafe { Context::new(context) };
        // At once: a grace that was set to 0 is over, even if the next command sets it again. But while the server loads its
        // data, no grace begins.
        let is_loading = context.flags() & flag::IS_LOADING != 0;
        if let Some(mut engine) = state::engine().ok().filter(|_| !is_loading) {
            engine.look_at_grace(&Server::new(&context));
        }
        check_later(&context);
    });
}
