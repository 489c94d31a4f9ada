//! Loading and unloading.

use super::info;
use crate::server::edge::command::{self, Registration};
use crate::server::edge::settings;
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::server::ffi::{api, this_server};
use crate::server::keys::followers;
use crate::server::waiting;
use redis_module::raw::{self, ModuleOptions};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NAME: &CStr = c"rlock";

/// As MODULE LIST shows it: two digits each for major, minor and patch.
const VERSION: c_int = 100;

const API_VERSION: c_int = 1;

/// For Valkey from 9.0 on: slots may move with the locks in them. Without this option, no slot of the server may move.
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
    // Nothing may be allocated before this call, which makes the server's allocator known.
    // SAFETY: the server passed the context.
    let met = unsafe { raw::Export_RedisModule_Init(context, NAME.as_ptr(), VERSION, API_VERSION) };
    if met != flag::OK {
        if is_loaded_already() {
            api::log("rlock is loaded already: remove loadmodule from the file or the command line");
        }
        return flag::ERR;
    }
    api::log_panics();
    // SAFETY: the server passes a context and arguments that live until loading ends.
    let (context, arguments) = unsafe { (Context::new(context), Str::arguments(strings, count)) };
    match catch_unwind(AssertUnwindSafe(|| set_up(&context, arguments, commands))) {
        Ok(Ok(())) => {
            if let Some(warning) = this_server::warning() {
                api::log(&warning);
            }
            flag::OK
        }
        Ok(Err(reason)) => refuse(&reason),
        Err(_) => {
            refuse("a function of the module API is not there: Redis 7.0 or newer, or Valkey 8.0 or newer, is needed")
        }
    }
}

/// Whether the server refuses the name because it already has the module: CONFIG REWRITE copies a --loadmodule of the command
/// line into the file, so the next start finds both.
fn is_loaded_already() -> bool {
    // SAFETY: a pointer that the server has set just now, if it has the function.
    unsafe { raw::RedisModule_IsModuleNameBusy.is_some_and(|is_busy| is_busy(NAME.as_ptr()) != 0) }
}

fn set_up(context: &Context, arguments: &[Str<'_>], commands: &[Registration]) -> Result<(), String> {
    this_server::learn(context);
    set_options(context);
    if let Some(command) = followers::missing_command(context) {
        let command = command.to_string_lossy();
        return Err(format!("{command} must be there under its own name: locks are replicated by it"));
    }
    settings::load(context, arguments)?;
    command::register(context, commands)?;
    followers::subscribe(context)?;
    waiting::subscribe(context)?;
    info::register(context);
    waiting::begin_grace(context)
}

fn set_options(context: &Context) {
    let options = ModuleOptions::HANDLE_IO_ERRORS
        | ModuleOptions::HANDLE_REPL_ASYNC_LOAD
        | ModuleOptions::NO_IMPLICIT_SIGNAL_MODIFIED;
    let valkey = if this_server::is_valkey() { VALKEY_HANDLES_SLOT_MIGRATION } else { 0 };
    // SAFETY: the context is alive.
    unsafe { api!(RedisModule_SetModuleOptions(context.as_ptr(), options.bits() | valkey)) };
}

fn refuse(reason: &str) -> c_int {
    api::log(&format!("rlock is not loaded: {reason}"));
    flag::ERR
}

/// Always refuses. If a module has commands, events and clients of its own, unloading it can crash the server: a command
/// that a pause has postponed runs code that is gone, or an ACL rule names a command that is gone. The cases differ by
/// version, and those of the next version are unknown. To load another version, restart the server.
///
/// # Safety
/// To be called by the server, which finds it by its name.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnUnload(_context: *mut raw::RedisModuleCtx) -> c_int {
    api::log(
        "rlock is not unloaded: some servers crash after that. Restart the server without it, or with another version",
    );
    flag::ERR
}
