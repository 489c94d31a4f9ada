//! The call of the server that is under way: its clock, its database, and what the server allows in it.

use super::api::{api, at_load, flag};
use super::string::{OwnedStr, Str};
use redis_module::raw;
use rlock_core::lock::UnixMs;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::time::SystemTime;

pub struct Context {
    raw: *mut raw::RedisModuleCtx,
    /// The database that was last selected here, if one was.
    selected: Cell<Option<i32>>,
    /// Whether a client's command is under way, and not a callback of another kind.
    pub is_command: bool,
    /// Whether the server already counts a change that was not replicated because there are no followers.
    pub is_counted: Cell<bool>,
}

/// An event of a key: the class by which listeners choose it, and the name that the plain command's event has.
pub type KeyEvent = (c_int, &'static CStr);

/// A function that the server calls when an event happens to it.
pub type OnEvent = unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

impl Context {
    /// # Safety
    /// `context` must be what the server passed to a callback that has not returned before this is dropped.
    pub unsafe fn new(context: *mut raw::RedisModuleCtx) -> Self {
        Self { raw: context, selected: Cell::new(None), is_command: false, is_counted: Cell::new(false) }
    }

    pub fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// Makes the server call this callback at this event.
    ///
    /// # Safety
    /// The callback must be one for this event.
    ///
    /// # Errors
    /// If the server refuses.
    pub unsafe fn on(&self, id: u64, callback: OnEvent) -> Result<(), String> {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is alive.
        let result = unsafe { api!(RedisModule_SubscribeToServerEvent(self.raw, event, Some(callback))) };
        at_load(result, "the server does not let it listen to its events")
    }

    /// The server's clock. A command reads it once, so that all it does happens at one moment.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no clock without a server that calls")]
    pub fn now(&self) -> UnixMs {
        clock_ms()
    }

    /// The database that commands of this context act on.
    ///
    /// A database that was selected here is remembered, not asked for: within a transaction, Valkey from 9.1 on reports the
    /// transaction's own database, whatever a module has selected.
    #[must_use]
    pub fn database(&self) -> i32 {
        // SAFETY: the context is alive.
        self.selected.get().unwrap_or_else(|| unsafe { api!(RedisModule_GetSelectedDb(self.raw)) })
    }

    /// Acts on another database for as long as the returned value lives.
    pub fn select(&self, database: i32) -> Selected<'_> {
        let before = self.database();
        self.switch_to(database);
        Selected { context: self, before }
    }

    fn switch_to(&self, database: i32) {
        if self.database() != database {
            // SAFETY: the context is alive. The server changes nothing if it has no database of this number.
            unsafe { api!(RedisModule_SelectDb(self.raw, database)) };
            self.selected.set(Some(database));
        }
    }

    /// The number of the client of this call, as CLIENT ID says it. One that is not connected, such as a script's or
    /// another module's, has a number, too.
    #[must_use]
    pub fn client(&self) -> u64 {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetClientId(self.raw)) }
    }

    /// The name of the user of the client of this call; None if that client is not connected.
    ///
    /// It is found by the client's number. The function for the current user crashes some servers (Redis 7.0) if there is
    /// none; the function for a client's details also knows other clients, and may crash on them (Valkey from 9.1 on).
    #[must_use]
    pub fn connected_user(&self) -> Option<OwnedStr> {
        // SAFETY: the context is alive; the name that comes back is ours.
        OwnedStr::from_server(unsafe { api!(RedisModule_GetClientUserNameById(self.raw, self.client())) })
    }

    /// Whether the client of this command can be kept waiting: not in a transaction, a script or another module's call.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.flags() & (flag::IN_SCRIPT | flag::IN_TRANSACTION | flag::DENIES_BLOCKING) == 0
    }

    pub fn flags(&self) -> c_int {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetContextFlags(self.raw)) }
    }

    /// While writes are paused (CLIENT PAUSE, a failover, a shutdown), the server postpones commands that write, except
    /// those of a transaction that itself began the pause. An expired key is then hidden but still there, and the server
    /// aborts if that key is created again. So any code that may create a key asks here first.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no pause without a server that calls")]
    pub fn writes_are_paused(&self) -> bool {
        // SAFETY: takes nothing and returns a number.
        unsafe { api!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }

    /// Reports to WATCH and client tracking that a key has changed. The module asked the server not to report every key
    /// that was opened for writing, since most refusals open their key for writing, too. Other callbacks may run before
    /// this returns: newer Redis looks the key up, and may find it expired. So no key may be open.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: the context and the key's name are alive.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw, key.as_ptr())) };
    }

    /// Announces a change of a key. Other callbacks may run, and change keys, before this returns.
    pub fn announce(&self, (class, name): KeyEvent, key: Str<'_>) {
        // SAFETY: the context, the event's name and the key's name are alive; the server keeps neither name.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.raw, class, name.as_ptr(), key.as_ptr())) };
    }

    /// Publishes a message to the subscribers of this server, and in a cluster of the other nodes: by PUBLISH, or by
    /// SPUBLISH.
    pub fn publish(&self, by_shard: bool, channel: Str<'_>, message: Str<'_>) {
        // SAFETY: the context and both strings are alive; the server takes references of its own.
        unsafe {
            if by_shard {
                api!(RedisModule_PublishMessageShard(self.raw, channel.as_ptr(), message.as_ptr()));
            } else {
                api!(RedisModule_PublishMessage(self.raw, channel.as_ptr(), message.as_ptr()));
            }
        }
    }
}

/// While it lives, its context acts on another database than before.
///
/// A context may act on a client's own connection, also in a job: the client's next commands go to the database that is
/// selected there. So each selection is undone, in the reverse order.
#[must_use = "the database of before is selected again when this is dropped"]
pub struct Selected<'a> {
    context: &'a Context,
    before: i32,
}

impl Drop for Selected<'_> {
    fn drop(&mut self) {
        self.context.switch_to(self.before);
    }
}

/// The server's clock, for callbacks that get no context.
pub fn clock_ms() -> UnixMs {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_Milliseconds()) }
}

/// The same clock in µs. Read from the system: the server's own function for it is missing in Redis 7.0.
pub fn clock_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// By a monotonic clock.
pub fn monotonic_us() -> u64 {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}

pub fn steady_ms() -> i64 {
    i64::try_from(monotonic_us() / 1_000).unwrap_or(i64::MAX)
}
