//! Which keyspace events the module hears: those by which a lock may go, from the first waiter on; and changes of hashes,
//! which matter only to waiters for a read-write lock, from the first of those on.
//!
//! For each of these events of any client's the server calls us, so the module listens only while somebody waits and a
//! little longer, on servers that take a subscription back (Redis from 8.2 on). Only the timer gives it back: within an
//! event the server is walking through its list of subscriptions.

use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use redis_module::raw;
use rlock_core::lock::{Side, UnixMs};
use std::ffi::c_int;

/// How long nobody must have waited. To subscribe anew costs hardly more than what a few events do.
const KEPT_MS: i64 = 1_000;

/// Each class of events has a subscription of its own, and is given back as what it was subscribed as.
const CLASSES: [c_int; 2] = [KEYS, raw::REDISMODULE_NOTIFY_HASH];
const KEYS: c_int = raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;

#[derive(Default)]
pub(super) struct Listening {
    /// The classes of events that are subscribed to.
    heard: c_int,
    /// Since when the module has listened for nobody, as far as is known.
    idle_since: Option<UnixMs>,
}

impl Listening {
    /// Listens for a waiter on this side.
    pub fn begin(&mut self, context: &Context, side: Side, on_event: raw::RedisModuleNotificationFunc) {
        let wanted = if side.mode().is_none() { KEYS } else { KEYS | raw::REDISMODULE_NOTIFY_HASH };
        let missing = wanted & !self.heard;
        self.heard |= wanted;
        for classes in CLASSES.into_iter().filter(|classes| missing & classes != 0) {
            // SAFETY: the context is alive, and the callback is one for keyspace events. The server never refuses.
            unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(context.as_ptr(), classes, on_event)) };
        }
    }

    /// When to listen no more, unless somebody comes to wait before then.
    pub fn ends_at(&mut self, nobody_waits: bool, now: UnixMs) -> Option<UnixMs> {
        // SAFETY: a pointer that the server has set at load, or has not.
        unsafe { raw::RedisModule_UnsubscribeFromKeyspaceEvents }?;
        self.idle_until(nobody_waits, now)
    }

    /// Listens no more. To be called with nothing of the server's under way.
    pub fn end(&mut self, context: &Context, on_event: raw::RedisModuleNotificationFunc) {
        let heard = std::mem::take(&mut self.heard);
        for classes in CLASSES.into_iter().filter(|classes| heard & classes != 0) {
            // SAFETY: the context is alive. The server finds the subscription by what it was made with.
            unsafe { api!(RedisModule_UnsubscribeFromKeyspaceEvents(context.as_ptr(), classes, on_event)) };
        }
    }

    fn idle_until(&mut self, nobody_waits: bool, now: UnixMs) -> Option<UnixMs> {
        // A time after now is from before the clock was set back.
        let since = self.idle_since.filter(|since| *since <= now).unwrap_or(now);
        self.idle_since = (nobody_waits && self.heard != 0).then_some(since);
        self.idle_since.map(|since| since.saturating_add(KEPT_MS))
    }

    /// How many subscriptions to keyspace events the module has.
    pub fn subscriptions(&self) -> usize {
        CLASSES.iter().filter(|classes| self.heard & **classes != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_nobody_has_waited_for_long_enough() {
        let mut listening = Listening::default();
        assert_eq!(listening.idle_until(true, 10), None, "it has not begun");
        listening.heard = KEYS;
        assert_eq!([10, 15].map(|now| listening.idle_until(true, now)), [Some(10 + KEPT_MS); 2]);
        assert_eq!(listening.idle_until(false, 20), None);
        assert_eq!(listening.idle_until(true, 30), Some(30 + KEPT_MS), "a waiter puts it off");
        assert_eq!(listening.idle_until(true, 5), Some(5 + KEPT_MS), "and so does a clock that is set back");
    }
}
