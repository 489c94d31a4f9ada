//! Loading and unloading.

use super::api::{api, flag};
use super::context::Context;
use super::entry::Registration;
use super::string::Str;
use super::{
    acl_rules, cluster, constants, followers, many_readers, panics, registration, replicate, settings, version, waiting,
};
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NAME: &CStr = c"rlock";

/// As MODULE LIST shows it: two digits each for major, minor and patch.
const VERSION: c_int = 100;

const API_VERSION: c_int = 1;

/// Valkey from 9.0: slots may move with their locks in them. Without it no slot of the whole server can move so.
const VALKEY_HANDLES_SLOT_MIGRATION: c_int = 1 << 5;

/// Loads the module with its commands.
///
/// # Safety
/// To be called by the server, from `RedisModule_OnLoad`, with what it was given.
pub unsafe fn load(
    context: *mut raw::RedisModuleCtx,
    strings: *mut *mut raw::RedisModuleString,
    count: c_int,
    commands: &[Registration],
) -> c_int {
    // Nothing may be allocated before this: it is what makes the server's allocator known.
    // SAFETY: the server passed the context.
    let met = unsafe { raw::Export_RedisModule_Init(context, NAME.as_ptr(), VERSION, API_VERSION) };
    if met != flag::OK {
        return flag::ERR;
    }
    panics::log_them();
    // SAFETY: the server passes a context and arguments that live until loading ends.
    let (context, arguments) = unsafe { (Context::new(context), Str::arguments(strings, count)) };
    match catch_unwind(AssertUnwindSafe(|| set_up(&context, arguments, commands))) {
        Ok(Ok(())) => flag::OK,
        Ok(Err(reason)) => refuse(&reason),
        Err(_) => {
            refuse("a function of the module API is not there: Redis 7.0 or newer, or Valkey 8.0 or newer, is needed")
        }
    }
}

fn set_up(context: &Context, arguments: &[Str<'_>], commands: &[Registration]) -> Result<(), String> {
    cluster::learn(context);
    set_options(context);
    if let Some(command) = replicate::missing_command(context) {
        let command = command.to_string_lossy();
        return Err(format!("{command} must be there under its own name: replicas are told of locks by it"));
    }
    settings::load(context, arguments)?;
    registration::register(context, commands)?;
    followers::subscribe(context)?;
    waiting::subscribe(context)?;
    waiting::register_info(context);
    constants::make();
    Ok(())
}

fn set_options(context: &Context) {
    let options = flag::HANDLES_IO_ERRORS | flag::HANDLES_ASYNC_LOAD | flag::SIGNALS_BY_ITSELF;
    let valkey = if version::is_valkey() { VALKEY_HANDLES_SLOT_MIGRATION } else { 0 };
    // SAFETY: the context is alive.
    unsafe { api!(RedisModule_SetModuleOptions(context.as_ptr(), options | valkey)) };
}

fn refuse(reason: &str) -> c_int {
    panics::log(&format!("rlock is not loaded: {reason}"));
    flag::ERR
}

/// Gives back what loading took. The server itself sees to it that nobody waits any more.
///
/// # Safety
/// To be called by the server, when it unloads the module.
pub unsafe fn unload(context: *mut raw::RedisModuleCtx) -> c_int {
    // SAFETY: the server passes a context that lives until this function returns.
    let context = unsafe { Context::new(context) };
    match catch_unwind(AssertUnwindSafe(|| why_not_unload(&context))) {
        Ok(None) => give_back(),
        Ok(Some(reason)) => {
            panics::log(&format!("rlock is not unloaded: {reason}"));
            flag::ERR
        }
        Err(_) => flag::ERR,
    }
}

/// What would end the server, on some versions.
fn why_not_unload(context: &Context) -> Option<&'static str> {
    // A command that was put off until then would run where there is no code any more.
    if context.ensure_writes_go_on().is_err() {
        return Some("writes are paused");
    }
    let named = acl_rules::name_us(context);
    named.then_some("ACL rules name its commands, see ACL LIST: take +rlock.… and -rlock.… away before")
}

fn give_back() -> c_int {
    waiting::clear();
    many_readers::clear();
    constants::free();
    drop(std::panic::take_hook());
    flag::OK
}
