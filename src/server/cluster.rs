//! Whether this server is a node of a cluster, which it is or is not for as long as it runs; and whether keys that are not
//! here may be at another node.

use super::api::{api, flag};
use super::context::Context;
use super::string::Str;
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);

pub(super) fn learn(context: &Context) {
    // SAFETY: the context is alive.
    let flags = unsafe { api!(RedisModule_GetContextFlags(context.as_ptr())) };
    ENABLED.store(flags & flag::IN_CLUSTER != 0, Ordering::Relaxed);
}

pub(super) fn enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Whether keys of one slot that are not here are nowhere. While the slot is on its way the server refuses a command with two
/// keys that it does not have. Neither may be open.
pub(super) fn has_all_there_is_of(context: &Context, one: Str<'_>, other: Str<'_>) -> bool {
    // SAFETY: the format says two strings, and these are passed. The reply is ours and freed below. Without a modifier that
    // asks for errors as replies, a command that the server does not run gives null.
    unsafe {
        let reply =
            api!(RedisModule_Call(context.as_ptr(), c"EXISTS".as_ptr(), c"ss".as_ptr(), one.as_ptr(), other.as_ptr()));
        if reply.is_null() {
            return false;
        }
        let is_answer = api!(RedisModule_CallReplyType(reply)) != flag::ERROR_REPLY;
        api!(RedisModule_FreeCallReply(reply));
        is_answer
    }
}
