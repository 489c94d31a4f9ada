//! What the user of a command may see, where the server cannot check it by the command's keys because it has none.

use super::reply::ErrorLine;
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::call::call;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::OwnedStr;
use redis_module::raw;
use std::ptr::NonNull;

/// The name of the user whose command is under way, as for instance its own sessions go by it.
///
/// # Errors
/// If the call has no user: it is another module's.
pub fn user_name(context: &Context) -> Result<OwnedStr, ErrorLine> {
    // By the client's id: in the function for the current user some servers crash if there is no such user.
    // SAFETY: the context is alive; the name that comes back is ours.
    let name = unsafe {
        let client = api!(RedisModule_GetClientId(context.as_ptr()));
        OwnedStr::from_server(api!(RedisModule_GetClientUserNameById(context.as_ptr(), client)))
    };
    match name {
        Some(name) => Ok(name),
        // A script has a client of its own, which no id finds, and which acts for a user unless another module calls it.
        None if context.flags() & flag::IN_SCRIPT != 0 && acts_for_a_user(context) => {
            // SAFETY: the context is alive, and has a user; the name that comes back is ours.
            let name = unsafe { OwnedStr::from_server(api!(RedisModule_GetCurrentUserName(context.as_ptr()))) };
            name.ok_or(NO_USER)
        }
        None => Err(NO_USER),
    }
}

/// Asks for a command that there is not: the server first looks for the user as whom it is asked to run it.
fn acts_for_a_user(context: &Context) -> bool {
    // SAFETY: a C string, as the format says behind its modifiers: run as the user, errors as replies.
    let reply = unsafe { call!(context, c"rlock.no-such-command", c"CEc", c"".as_ptr()) };
    reply.is_some_and(|reply| !reply.is_error_with(b"cannot run as user"))
}

/// The user of the client whose command is under way.
pub struct Reader(NonNull<raw::RedisModuleUser>);

impl Reader {
    /// # Errors
    /// If the call has no user: it is another module's, or the user was deleted just now.
    pub fn of(context: &Context) -> Result<Self, ErrorLine> {
        // By the client's id: in the function for the current user some servers crash if there is no such user.
        // SAFETY: the context is alive; the name that comes back is ours, and a user that comes back is freed below.
        unsafe {
            let client = api!(RedisModule_GetClientId(context.as_ptr()));
            let name = api!(RedisModule_GetClientUserNameById(context.as_ptr(), client));
            let name = OwnedStr::from_server(name).ok_or(NOBODY)?;
            let user = api!(RedisModule_GetModuleUserFromUserName(name.lend().as_ptr()));
            NonNull::new(user).map(Self).ok_or(NOBODY)
        }
    }

    /// Whether the user may read this key.
    pub fn may_read(&self, key: &[u8]) -> bool {
        let key = OwnedStr::new(key);
        // SAFETY: the user and the name are alive.
        unsafe {
            api!(RedisModule_ACLCheckKeyPermissions(self.0.as_ptr(), key.lend().as_ptr(), flag::MAY_READ)) == flag::OK
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once. The server's own user stays.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) };
    }
}

const NO_USER: ErrorLine = ErrorLine(c"NOPERM there is no user whose session it could be: ask by a client's command");

const NOBODY: ErrorLine = ErrorLine(c"NOPERM there is no user whose keys could be told: ask by a client's command");
