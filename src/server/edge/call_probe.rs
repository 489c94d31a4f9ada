//! Calls commands as other modules do, so that a test can prove what they are answered. Never in a build that ships.

use super::reply::Reply;
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::call::call;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::raw;
use std::ffi::CString;

/// Calls the command that is named first, and passes its answer on; or says that there is none yet. On servers on which
/// modules can wait for answers, this one would.
pub fn call_as_a_module(context: &Context, command: &[Str<'_>]) -> Reply {
    let Some((name, arguments)) = command.split_first() else { return Reply::Nil };
    let name = CString::new(name.bytes()).unwrap_or_default();
    // SAFETY: a pointer that the server has set at load, or has not.
    let can_wait = unsafe { (&raw const raw::RedisModule_CallReplyPromiseSetUnblockHandler).read().is_some() };
    let format = if can_wait { c"KEv" } else { c"Ev" };
    // SAFETY: strings and their number, as the format says behind its modifiers: may block, errors as replies.
    let reply = unsafe { call!(context, name, format, arguments.as_ptr(), arguments.len()) };
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
