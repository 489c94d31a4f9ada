//! Whether this server is a node of a cluster, which never changes while it runs; and whether keys that are not here
//! may be at another node.

use super::api::flag;
use super::call::call;
use super::context::Context;
use super::string::Str;
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);

pub fn learn(context: &Context) {
    ENABLED.store(context.flags() & flag::IN_CLUSTER != 0, Ordering::Relaxed);
}

pub fn enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Whether keys of one slot that are not here exist nowhere. While the slot moves, the server refuses a command with
/// two keys that it does not have. Neither key may be open.
pub fn has_all_there_is_of(context: &Context, one: Str<'_>, other: Str<'_>) -> bool {
    // SAFETY: two strings, as the format says. Without a modifier that asks for errors as replies, a command that the
    // server does not run gives none.
    let reply = unsafe { call!(context, c"EXISTS", c"ss", one.as_ptr(), other.as_ptr()) };
    reply.is_some_and(|reply| reply.error().is_none())
}
