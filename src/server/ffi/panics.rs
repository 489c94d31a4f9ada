//! What a panic of ours leaves in the server's log.
//!
//! The standard hook prints to stderr and walks the stack, and that walk frees memory through libc: on servers that
//! load modules with a symbol scope of their own (Valkey from 8.1) it crashes them, with `RUST_BACKTRACE=1`. So this
//! hook logs where and what, and nothing else.

use super::api::api;
use std::ffi::CString;
use std::panic::{self, PanicHookInfo};
use std::ptr;

pub fn log_them() {
    panic::set_hook(Box::new(|panic| log(&describe(panic))));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    let message = formatted.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    match panic.location() {
        Some(place) => format!("panic at {}:{}: {message}", place.file(), place.line()),
        None => format!("panic: {message}"),
    }
}

/// Runs a callback of the server's, which a panic must not leave.
pub fn guarded<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    panic::catch_unwind(panic::AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// Writes a line to the server's log, as a warning.
pub fn log(line: &str) {
    // A C string ends at a NUL, so the line may contain none.
    let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
    // SAFETY: the line is an argument of the format, never the format itself, so nothing in it is interpreted.
    unsafe { api!(RedisModule_Log(ptr::null_mut(), c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
}
