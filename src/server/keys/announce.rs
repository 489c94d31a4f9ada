//! Keyspace events of what the module changes.
//!
//! The module listens to such events itself, for what others do to locks with waiters. It ignores its own events about
//! a lock: the command that changes a lock settles its queue. It knows them by the very pointer that the server passes
//! on, so what another module does inside of our announcement is not taken for ours.

use super::kept::kept;
use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int};

/// An event, with the name that the plain command's has.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Del,
    Expire,
    Hdel,
    Hincrby,
    Hset,
    Incrby,
    Set,
}

impl Event {
    /// The class by which keyspace listeners choose the event, and its name.
    fn wire(self) -> (c_int, &'static CStr) {
        match self {
            Self::Del => (raw::REDISMODULE_NOTIFY_GENERIC, c"del"),
            Self::Expire => (raw::REDISMODULE_NOTIFY_GENERIC, c"expire"),
            Self::Hdel => (raw::REDISMODULE_NOTIFY_HASH, c"hdel"),
            Self::Hincrby => (raw::REDISMODULE_NOTIFY_HASH, c"hincrby"),
            Self::Hset => (raw::REDISMODULE_NOTIFY_HASH, c"hset"),
            Self::Incrby => (raw::REDISMODULE_NOTIFY_STRING, c"incrby"),
            Self::Set => (raw::REDISMODULE_NOTIFY_STRING, c"set"),
        }
    }
}

/// Announces a change in a lock's own key. Other callbacks may run, and change keys, before this returns.
pub(super) fn of_lock(context: &Context, event: Event, key: Str<'_>) {
    let announced = &kept().announced;
    announced.set(Some(event.wire().1.as_ptr()));
    of_other_key(context, event, key);
    announced.set(None);
}

/// The same for a key beside the lock's.
pub(super) fn of_other_key(context: &Context, event: Event, key: Str<'_>) {
    let (class, name) = event.wire();
    // SAFETY: the context, the event's name and the key's name are alive; the server keeps neither name.
    unsafe { api!(RedisModule_NotifyKeyspaceEvent(context.as_ptr(), class, name.as_ptr(), key.as_ptr())) };
}

/// Whether an event of this name, which the server reports, is one that we announce about a lock.
pub fn is_ours(event: *const c_char) -> bool {
    kept().announced.get() == Some(event)
}
