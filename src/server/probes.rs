//! ```text
//! RLOCK.PANIC key
//! RLOCK.CALL [WITHIN-EVENT] command [argument ...]
//! RLOCK.CALL ERROR-WITHIN-EVENT
//! ```
//! Commands for tests: one panics, to prove that a panic in any command becomes an error reply; the other calls commands as
//! other modules do, also within the event of a key, to prove which replies they get. Never in a build that ships.

use super::edge::{Command, Reply, Writer};
use super::ffi::api::{api, flag};
use super::ffi::call::{CallReply, call};
use super::ffi::context::Context;
use super::ffi::string::{OwnedStr, Str};
use redis_module::raw;
use rlock_core::words::{self, Audience, Error, KeyUse};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

/// RLOCK.PANIC
pub struct Panic;

impl Command for Panic {
    const WORDS: &'static words::Command =
        &words::Command { name: "RLOCK.PANIC", summary: "Panics.", key: KeyUse::Updates, ..words::BREAK };

    #[allow(clippy::panic, reason = "what it is for")]
    fn run(_context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let key = arguments.last().map_or(&b""[..], |key| key.bytes());
        panic!("as asked, for {}", String::from_utf8_lossy(key));
    }
}

/// RLOCK.CALL
pub struct Call;

impl Command for Call {
    /// Like CANCEL, it takes a word and any number of others.
    const WORDS: &'static words::Command = &words::Command {
        name: "RLOCK.CALL",
        summary: "Calls a command as other modules do.",
        audience: Audience::Operators,
        ..words::CANCEL
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let words = arguments.get(1..).unwrap_or_default();
        Ok(match words.split_first() {
            Some((word, command)) if word.bytes() == b"WITHIN-EVENT" => {
                call_within_event(context, command);
                Reply::Nil
            }
            Some((word, [])) if word.bytes() == b"ERROR-WITHIN-EVENT" => {
                // Empty if the reply was not an error.
                WITHIN.with_borrow(|within| _ = Writer::new(context).bytes(&within.error));
                Reply::Written
            }
            _ => call_as_a_module(context, words),
        })
    }
}

/// Calls the command that is named first, and passes its reply on, or says that there is none yet. Servers on which modules
/// can wait for replies may block this call.
fn call_as_a_module(context: &Context, command: &[Str<'_>]) -> Reply {
    // SAFETY: a pointer that the server has set at load, or has not.
    let can_wait = unsafe { (&raw const raw::RedisModule_CallReplyPromiseSetUnblockHandler).read().is_some() };
    let reply = run(context, command, can_wait);
    match reply {
        None => Reply::Nil,
        Some(reply) if reply.kind() == flag::PROMISE => Reply::Word(c"PROMISE"),
        Some(reply) => {
            // SAFETY: the context and the reply are alive.
            unsafe { api!(RedisModule_ReplyWithCallReply(context.as_ptr(), reply.as_ptr())) };
            Reply::Written
        }
    }
}

fn run(context: &Context, command: &[Str<'_>], may_wait: bool) -> Option<CallReply> {
    let (name, arguments) = command.split_first()?;
    let name = CString::new(name.bytes()).unwrap_or_default();
    let format = if may_wait { c"KEv" } else { c"Ev" };
    // SAFETY: strings and their number, as the format says behind its modifiers: may block, errors as replies.
    unsafe { call!(context, name, format, arguments.as_ptr(), arguments.len()) }
}

/// The command to call within the next event of a hash, and the error that the last such call got.
#[derive(Default)]
struct Within {
    command: Vec<OwnedStr>,
    error: Vec<u8>,
}

thread_local! {
    static WITHIN: RefCell<Within> = RefCell::default();
}

/// Calls this command within the next event of a hash, whatever causes it.
fn call_within_event(context: &Context, command: &[Str<'_>]) {
    let command = command.iter().map(|word| OwnedStr::new(word.bytes())).collect();
    WITHIN.set(Within { command, error: Vec::new() });
    // SAFETY: the callback is one for keyspace events.
    unsafe {
        let class = raw::REDISMODULE_NOTIFY_HASH;
        api!(RedisModule_SubscribeToKeyspaceEvents(context.as_ptr(), class, Some(on_event)));
    }
}

/// # Safety
/// To be called by the server, for a keyspace event.
unsafe extern "C" fn on_event(
    context: *mut raw::RedisModuleCtx,
    _class: c_int,
    _event: *const c_char,
    _key: *mut raw::RedisModuleString,
) -> c_int {
    let command = WITHIN.with_borrow_mut(|within| std::mem::take(&mut within.command));
    if !command.is_empty() {
        // SAFETY: the server passes a context.
        let context = unsafe { Context::new(context) };
        let words: Vec<_> = command.iter().map(OwnedStr::lend).collect();
        let reply = run(&context, &words, false);
        let error = reply.and_then(|reply| reply.error().map(<[u8]>::to_vec)).unwrap_or_default();
        WITHIN.with_borrow_mut(|within| within.error = error);
    }
    flag::OK
}
