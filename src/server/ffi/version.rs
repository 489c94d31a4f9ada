//! Which server this is, where no function of the module API shows it by its presence.

use super::api::{api, flag};
use std::ffi::c_void;

pub fn is_valkey() -> bool {
    let mut function: *mut c_void = std::ptr::null_mut();
    let name = c"ValkeyModule_GetServerVersion".as_ptr();
    // SAFETY: the server writes at most one function pointer to where it is told.
    unsafe { api!(RedisModule_GetApi(name, (&raw mut function).cast())) == flag::OK }
}

/// Whether CLIENT UNBLOCK leaves a client without any reply if it meets the client's grant. Redis before 7.4 does.
pub fn loses_replies() -> bool {
    // SAFETY: takes nothing and returns a number, two digits each for major, minor and patch.
    !is_valkey() && unsafe { api!(RedisModule_GetServerVersion()) } < 0x0007_0400
}
