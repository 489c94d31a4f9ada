//! Whether this server is a node of a cluster, which it is or is not for as long as it runs.

use super::api::{api, flag};
use super::context::Context;
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
