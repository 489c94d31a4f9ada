//! The edge of a command: the one function that the server calls, and the one reply that it gets.

use super::api::flag;
use super::context::{Context, Reply};
use super::registration::Spec;
use super::string::Str;
use crate::lock::Refusal;
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A command of the module: what the server is told of it, and what it does.
pub trait Command {
    const SPEC: Spec;

    /// # Errors
    /// The error reply. It must then have changed nothing.
    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine>;
}

/// A whole error reply, its code first. Always a constant, so that no input can shape one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorLine(pub &'static CStr);

impl From<Refusal> for ErrorLine {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.wire())
    }
}

/// A command in the form in which the server takes it.
#[derive(Clone, Copy)]
pub struct Registration {
    pub(super) spec: &'static Spec,
    pub(super) entry: Entry,
}

pub(super) type Entry =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

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
    let (context, arguments) = unsafe { (Context::of_command(context), Str::arguments(strings, count)) };
    match catch_unwind(AssertUnwindSafe(|| C::run(&context, arguments))) {
        Ok(Ok(reply)) => context.reply(reply),
        Ok(Err(line)) => context.reply_error(line.0),
        Err(_) => context.reply_error(PANICKED),
    }
    context.count_what_was_untold();
    flag::OK
}

const PANICKED: &CStr = c"ERR internal error in rlock, told in the server's log; the lock may have changed";
