//! The call of the server that is under way: its clock, its database, and what the server allows in it.

use super::api::{api, flag};
use super::string::Str;
use crate::lock::UnixMs;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

pub struct Context {
    raw: *mut raw::RedisModuleCtx,
    /// Whether a client's command is under way, and not a callback of another kind.
    pub is_command: bool,
    /// Whether a change was not replicated, since nobody follows.
    pub unreplicated: Cell<bool>,
}

/// A function that the server calls when an event happens to it.
pub type OnEvent = unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

impl Context {
    /// # Safety
    /// `context` must be what the server passed to a callback that has not returned before this is dropped.
    pub unsafe fn new(context: *mut raw::RedisModuleCtx) -> Self {
        Self { raw: context, is_command: false, unreplicated: Cell::new(false) }
    }

    pub fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// Has the callback called when this event happens to the server.
    ///
    /// # Safety
    /// The callback must be one for this event.
    pub unsafe fn on(&self, id: u64, callback: OnEvent) -> c_int {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_SubscribeToServerEvent(self.raw, event, Some(callback))) }
    }

    /// The server's clock. A command reads it once, so that all it does happens at one moment.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no clock without a server that calls")]
    pub fn now(&self) -> UnixMs {
        clock_ms()
    }

    /// The database that commands of this context act on.
    #[must_use]
    pub fn database(&self) -> i32 {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetSelectedDb(self.raw)) }
    }

    pub fn select(&self, database: i32) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_SelectDb(self.raw, database)) };
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

    /// While writes are paused (CLIENT PAUSE, a failover, a shutdown) the server postpones commands that write, but
    /// not those of a transaction that paused them itself. A key whose time is over is then hidden but still there,
    /// and the server aborts if it is created anew. So any code that may create a key asks here first.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no pause without a server that calls")]
    pub fn writes_are_paused(&self) -> bool {
        // SAFETY: takes nothing and returns a number.
        unsafe { api!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }

    /// Tells WATCH and client tracking that a key has changed. The module asked the server not to guess it from keys
    /// that were opened for writing, since most refusals come from such keys too.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: the context and the key's name are alive.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw, key.as_ptr())) };
    }
}

/// The server's clock, for callbacks that get no context.
pub fn clock_ms() -> UnixMs {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_Milliseconds()) }
}
