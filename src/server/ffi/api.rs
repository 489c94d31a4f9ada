//! How the server's functions are called, and their flags in the types in which they take them.

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
    pub const FIELDS_ARE_STRINGS: c_int = raw::REDISMODULE_HASH_NONE as c_int;
    pub const EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
    pub const HASH: c_int = raw::REDISMODULE_KEYTYPE_HASH as c_int;
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

/// Calls a function of the module API by its name. Every function that is called so exists on every server that loads
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

/// What a call at load came to.
///
/// # Errors
/// The reason for which the module is then not loaded.
pub fn at_load(result: std::ffi::c_int, reason: &str) -> Result<(), String> {
    if result == flag::OK { Ok(()) } else { Err(reason.to_owned()) }
}
