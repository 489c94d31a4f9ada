//! Everything that the module keeps about waiting between two calls of the server.
//!
//! The engine is lent to one call at a time. What it does to keys may run other code before it returns: another module's,
//! in the event of a key, or the server's, when it comes across an expired key. What the server reports then goes
//! into the inbox, and the engine reads it as soon as it has checked a lock, or is done. A command that another module
//! calls within such an event is refused: the change that caused the event is half done.

use super::blocked_client::{BlockedClient, Callbacks, ClientKey};
use crate::server::ffi::api::{MainThread, api};
use crate::server::ffi::context::Context;
use foldhash::fast::RandomState;
use redis_module::raw;
use rlock_core::lock::{Side, UnixMs};
use rlock_core::waiting::{Engine, Note, WaitsFor};
use rlock_core::words::Error;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_char, c_int};

pub type Lent = RefMut<'static, Engine<BlockedClient>>;

#[derive(Default)]
pub(super) struct State {
    engine: RefCell<Engine<BlockedClient>>,
    inbox: RefCell<VecDeque<Note>>,
    pub clients: RefCell<Clients>,
    pub timer: Cell<Option<Armed>>,
    pub events: Events,
    pub listening: RefCell<Listening>,
    /// Whether the settings that a grace relies on are still to be checked.
    pub grace_is_unchecked: Cell<bool>,
    /// Set when the module is loaded.
    pub hooks: Cell<Option<Hooks>>,
}

/// The functions that the server calls, unaware of their purpose.
#[derive(Clone, Copy)]
pub(super) struct Hooks {
    pub of_client: &'static Callbacks,
    pub on_key: OnKey,
}

type OnKey = unsafe extern "C" fn(*mut raw::RedisModuleCtx, c_int, *const c_char, *mut raw::RedisModuleString) -> c_int;

/// The clients that the server knows as blocked by the module.
#[derive(Default)]
pub(super) struct Clients {
    /// Blocked, or unblocked and not yet answered.
    pub blocked: HashMap<ClientKey, Blocked, RandomState>,
    /// The numbers of the clients that the server unblocked before they could get their answer.
    pub unanswered: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Blocked {
    pub waits_for: WaitsFor,
    /// Since when: see [`crate::server::ffi::context::monotonic_us`].
    pub since_us: u64,
    /// Whether the client has a user other than the default one, which it gets as soon as its own is deleted.
    pub has_own_user: bool,
}

/// What the module keeps about the server's events.
#[derive(Default)]
pub(super) struct Events {
    pub hears_clients: Cell<bool>,
    /// Whether the server caused the last event by itself.
    pub is_sweep: Cell<bool>,
    /// Whether a post-notification job is set and has not run.
    pub job_is_set: Cell<bool>,
}

/// The timer, armed.
#[derive(Clone, Copy)]
pub(super) struct Armed {
    pub id: raw::RedisModuleTimerID,
    /// When the timer goes off.
    pub time: UnixMs,
    /// When the timer was armed.
    pub since: UnixMs,
}

impl Armed {
    /// Whether the timer goes off at `time` at the latest, by a clock that now says `now`.
    pub fn is_in_time_for(self, time: UnixMs, now: UnixMs) -> bool {
        self.time <= time && self.since <= now
    }
}

static STATE: MainThread<State> = MainThread::new();

pub(super) fn get() -> &'static State {
    STATE.get()
}

/// The engine, for this call of the server's.
///
/// # Errors
/// If the engine is lent to another call, and this call comes within that one.
#[inline]
pub fn engine() -> Result<Lent, Error> {
    STATE.get().engine.try_borrow_mut().map_err(|_| Error::WithinAnother)
}

/// The next note that was made while the engine was lent.
pub(super) fn next_note() -> Option<Note> {
    STATE.get().inbox.borrow_mut().pop_front()
}

/// Whether something was noted while the engine was lent.
pub(super) fn has_notes() -> bool {
    !STATE.get().inbox.borrow().is_empty()
}

/// How many subscriptions to keyspace events the module has.
pub fn subscriptions() -> usize {
    STATE.get().listening.borrow().subscriptions()
}

/// Makes the engine note what has happened, now or as soon as it is back. Returns whether the engine may have to follow it up.
pub(super) fn note(note: Note) -> bool {
    let Ok(mut engine) = engine() else {
        STATE.get().inbox.borrow_mut().push_back(note);
        return false;
    };
    engine.note(note);
    engine.length() > 0 || !engine.sessions().is_empty() || engine.has_news_of_grace()
}

/// How long no waiter must be there before subscriptions end. Subscribing again costs hardly more than a few events.
const KEPT_MS: i64 = 1_000;

/// Each class of events has a subscription of its own, which is also ended by its class.
const CLASSES: [c_int; 3] = [KEYS, raw::REDISMODULE_NOTIFY_HASH, raw::REDISMODULE_NOTIFY_ZSET];
const KEYS: c_int = raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;

/// The keyspace events that the module gets. From the first waiter on: events that can free a lock. From the first waiter for
/// a read-write lock on: changes of hashes, which matter only to such waiters. From the first waiter for a permit on: changes
/// of sorted sets.
///
/// The server calls the module for each such event of any client. So if the server can end a subscription (Redis from 8.2 on),
/// the module is subscribed only while there are waiters, and a little longer. Only the timer ends it: within an event the
/// server is walking through its list of subscriptions.
#[derive(Default)]
pub(super) struct Listening {
    /// The classes of events that are subscribed to.
    heard: c_int,
    /// Since when there has been no waiter, as far as is known.
    idle_since: Option<UnixMs>,
}

impl Listening {
    /// Listens for a waiter on this side.
    pub fn begin(&mut self, context: &Context, side: Side, on_event: raw::RedisModuleNotificationFunc) {
        let of_hashes = side.mode().map_or(0, |_| raw::REDISMODULE_NOTIFY_HASH);
        let of_permits = side.limit().map_or(0, |_| raw::REDISMODULE_NOTIFY_ZSET);
        let wanted = KEYS | of_hashes | of_permits;
        let missing = wanted & !self.heard;
        self.heard |= wanted;
        for classes in CLASSES.into_iter().filter(|classes| missing & classes != 0) {
            // SAFETY: the context is alive, and the callback is one for keyspace events. The server never refuses.
            unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(context.as_ptr(), classes, on_event)) };
        }
    }

    /// When to end the subscriptions, unless a waiter comes before then.
    pub fn plan_end(&mut self, is_idle: bool, now: UnixMs) -> Option<UnixMs> {
        // SAFETY: a pointer that the server has set at load, or has not.
        unsafe { raw::RedisModule_UnsubscribeFromKeyspaceEvents }?;
        self.note_idle(is_idle, now)
    }

    /// Ends all subscriptions. Call this only while nothing of the server's is under way.
    pub fn end(&mut self, context: &Context, on_event: raw::RedisModuleNotificationFunc) {
        let heard = std::mem::take(&mut self.heard);
        for classes in CLASSES.into_iter().filter(|classes| heard & classes != 0) {
            // SAFETY: the context is alive. The server finds the subscription by what it was made with.
            unsafe { api!(RedisModule_UnsubscribeFromKeyspaceEvents(context.as_ptr(), classes, on_event)) };
        }
    }

    fn note_idle(&mut self, is_idle: bool, now: UnixMs) -> Option<UnixMs> {
        // A time after now is from before the clock was set back.
        let since = self.idle_since.filter(|since| *since <= now).unwrap_or(now);
        self.idle_since = (is_idle && self.heard != 0).then_some(since);
        self.idle_since.map(|since| since.saturating_add(KEPT_MS))
    }

    pub fn subscriptions(&self) -> usize {
        CLASSES.iter().filter(|classes| self.heard & **classes != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_a_while_without_waiters() {
        let mut listening = Listening::default();
        assert_eq!(listening.note_idle(true, 10), None, "it has not begun");
        listening.heard = KEYS;
        assert_eq!([10, 15].map(|now| listening.note_idle(true, now)), [Some(10 + KEPT_MS); 2]);
        assert_eq!(listening.note_idle(false, 20), None);
        assert_eq!(listening.note_idle(true, 30), Some(30 + KEPT_MS), "a waiter puts it off");
        assert_eq!(listening.note_idle(true, 5), Some(5 + KEPT_MS), "and so does a clock that is set back");
    }
}
