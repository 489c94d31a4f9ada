//! The boundary itself: how the server's functions are called, their flags in the types that these functions take, and what
//! holds whenever the server calls us: no panic gets out, and all calls come on one thread.

use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::panic::{self, PanicHookInfo};
use std::ptr;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "small constants of a C header, which the bindings give other integer types than its functions take"
)]
pub mod flag {
    use redis_module::raw;
    use std::ffi::c_int;

    pub const OK: c_int = raw::REDISMODULE_OK as c_int;
    pub const ERR: c_int = raw::REDISMODULE_ERR as c_int;
    pub const READ: c_int = raw::REDISMODULE_READ as c_int;
    pub const WRITE: c_int = raw::REDISMODULE_WRITE as c_int;
    pub const WITHOUT_TOUCH: c_int = raw::REDISMODULE_OPEN_KEY_NOTOUCH as c_int;
    pub const WITHOUT_EXPIRY: c_int = raw::REDISMODULE_OPEN_KEY_NOEXPIRE as c_int;
    pub const FIELDS_ARE_STRINGS: c_int = raw::REDISMODULE_HASH_NONE as c_int;
    pub const EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
    pub const HASH: c_int = raw::REDISMODULE_KEYTYPE_HASH as c_int;
    pub const SORTED_SET: c_int = raw::REDISMODULE_KEYTYPE_ZSET as c_int;
    pub const STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;
    pub const ON_UNIX_SOCKET: u64 = raw::REDISMODULE_CLIENTINFO_FLAG_UNIXSOCKET as u64;
    pub const MAY_READ: c_int = raw::REDISMODULE_CMD_KEY_ACCESS as c_int;
    #[cfg(feature = "panic-probe")]
    pub const PROMISE: c_int = raw::REDISMODULE_REPLY_PROMISE as c_int;
    pub const ERROR_REPLY: c_int = raw::REDISMODULE_REPLY_ERROR as c_int;
    pub const IN_SCRIPT: c_int = raw::REDISMODULE_CTX_FLAGS_LUA as c_int;
    pub const IN_TRANSACTION: c_int = raw::REDISMODULE_CTX_FLAGS_MULTI as c_int;
    pub const DENIES_BLOCKING: c_int = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING as c_int;
    pub const IS_MASTER: c_int = raw::REDISMODULE_CTX_FLAGS_MASTER as c_int;
    pub const IS_LOADING: c_int = raw::REDISMODULE_CTX_FLAGS_LOADING as c_int;
    pub const IS_FULL: c_int = raw::REDISMODULE_CTX_FLAGS_OOM as c_int;
    pub const IN_CLUSTER: c_int = raw::REDISMODULE_CTX_FLAGS_CLUSTER as c_int;
    pub const REQUIRED: c_int = raw::REDISMODULE_CMD_ARG_NONE as c_int;
    pub const REPEATED: c_int = raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
    pub const OPTIONAL: c_int = raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int;
}

/// Calls a function of the module API by its name. Each function that is called this way exists on every server that loads
/// the module; a missing one would be a defect of ours, and an error reply for the client.
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match redis_module::raw::$function {
            Some(function) => function($($argument),*),
            None => $crate::server::ffi::api::missing(stringify!($function)),
        }
    };
}
pub(in crate::server) use api;

#[cold]
#[allow(clippy::panic, reason = "caught at the command's edge, or at load")]
pub fn missing(what: &str) -> ! {
    panic!("this server has no {what}")
}

/// The result of a call at load.
///
/// # Errors
/// The reason why the module is then not loaded.
pub fn at_load(result: std::ffi::c_int, reason: &str) -> Result<(), String> {
    if result == flag::OK { Ok(()) } else { Err(reason.to_owned()) }
}

/// Makes each panic of ours write a line to the server's log.
///
/// The standard hook prints to stderr and walks the stack, and that walk frees memory through libc: on servers that
/// load modules with a symbol scope of their own (Valkey from 8.1) it crashes them, with `RUST_BACKTRACE=1`. So this
/// hook logs where and what, and nothing else.
pub fn log_panics() {
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

/// Runs a callback that the server calls: a panic in it must not reach the server.
pub fn guarded<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    panic::catch_unwind(panic::AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// Writes a line to the server's log, as a warning.
pub fn log(line: &str) {
    log_at(c"warning", line);
}

/// Writes a line to the server's log that reports something and asks for no action.
pub fn notice(line: &str) {
    log_at(c"notice", line);
}

fn log_at(level: &CStr, line: &str) {
    // A C string ends at a NUL, so the line may contain none.
    let line = CString::new(line.replace('\0', "\\0")).unwrap_or_default();
    // SAFETY: the line is an argument of the format, never the format itself, so nothing in it is interpreted.
    unsafe { api!(RedisModule_Log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
}

/// A value for the server's main thread, the only thread on which the server calls the module. It is made when it is first
/// asked for.
pub struct MainThread<T>(OnceCell<T>);

// SAFETY: only the main thread uses it, see above, so nothing is shared with another thread.
unsafe impl<T> Sync for MainThread<T> {}

impl<T: Default> MainThread<T> {
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    #[inline]
    pub fn get(&self) -> &T {
        self.0.get_or_init(T::default)
    }
}
