//! The way into a command: the one function that the server calls, and the one reply that the server gets.

use crate::server::edge::{Command, ErrorLine, Registration, reply};
use crate::server::ffi::api::flag;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::server::keys::followers;
use redis_module::raw;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Registration {
    #[must_use]
    pub const fn of<C: Command>() -> Self {
        Self { spec: &C::SPEC, entry: enter::<C> }
    }
}

/// Runs a command and replies once, whatever happens in it: a panic must not reach the server, which it would abort.
///
/// # Safety
/// To be called by the server, for a command.
unsafe extern "C" fn enter<C: Command>(
    context: *mut raw::RedisModuleCtx,
    strings: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // SAFETY: the server passes a context and arguments that live until this function returns.
    let (mut context, arguments) = unsafe { (Context::new(context), Str::arguments(strings, count)) };
    context.is_command = true;
    let answer = catch_unwind(AssertUnwindSafe(|| C::run(&context, arguments)));
    reply::send(&context, answer.unwrap_or(Err(PANICKED)));
    followers::count_unreplicated(&context);
    flag::OK
}

const PANICKED: ErrorLine =
    ErrorLine(c"ERR internal error in rlock, told in the server's log; the lock may have changed");
