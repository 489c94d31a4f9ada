//! One command, `NOOP key …`, that takes any arguments and replies nil: the floor under every module's command.
//!
//! Registered by the bare functions of the module API, as rlock's own commands are, so that nothing of a wrapper is
//! counted as the server's.

use redis_module::raw;
use std::ffi::c_int;

const OK: c_int = raw::REDISMODULE_OK as c_int;
const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// # Safety
/// To be called by the server, which finds it by its name.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    // SAFETY: the server passed the context, and copies all strings.
    unsafe {
        if raw::Export_RedisModule_Init(context, c"noop".as_ptr(), 1, 1) != OK {
            return ERR;
        }
        raw::RedisModule_CreateCommand
            .map_or(ERR, |create| create(context, c"NOOP".as_ptr(), Some(reply_nil), c"write fast".as_ptr(), 1, 1, 1))
    }
}

unsafe extern "C" fn reply_nil(
    context: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    // SAFETY: the context is the server's, and alive while the command runs.
    unsafe { raw::RedisModule_ReplyWithNull.map_or(ERR, |reply| reply(context)) }
}
