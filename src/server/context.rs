//! The command under way: its clock, its reply, and what it announces.

use super::api::{api, flag};
use super::entry::ErrorLine;
use super::string::Str;
use crate::lock::UnixMs;
use redis_module::raw;
use std::ffi::{CStr, c_int};

pub struct Context(*mut raw::RedisModuleCtx);

/// What a command says to its client, if it is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// None now: the client waits, and is answered later.
    Later,
    Nil,
    Number(i64),
    /// An array of two.
    Pair(Option<i64>, Option<i64>),
}

/// The kinds of events that keyspace listeners choose from.
#[derive(Clone, Copy)]
pub(super) enum EventClass {
    Generic,
    Hash,
    Text,
}

impl Context {
    /// # Safety
    /// `context` must be what the server passed to a callback that has not returned before this is dropped.
    pub(super) unsafe fn new(context: *mut raw::RedisModuleCtx) -> Self {
        Self(context)
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.0
    }

    /// The server's clock. A command reads it once, so that all it does happens at one moment.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no clock without a server that calls")]
    pub fn now(&self) -> UnixMs {
        // SAFETY: takes nothing and returns a number.
        unsafe { api!(RedisModule_Milliseconds()) }
    }

    /// The database that commands of this context act on.
    #[must_use]
    pub fn database(&self) -> i32 {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetSelectedDb(self.0)) }
    }

    pub(super) fn select(&self, database: i32) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_SelectDb(self.0, database)) };
    }

    /// Whether the client of this command can be kept waiting: not in a transaction, a script or another module's call.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.flags() & (flag::IN_SCRIPT | flag::IN_TRANSACTION | flag::DENIES_BLOCKING) == 0
    }

    pub(super) fn flags(&self) -> c_int {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetContextFlags(self.0)) }
    }

    /// While writes are paused (CLIENT PAUSE, a failover, a shutdown) the server postpones commands that write, but
    /// not those of a transaction that paused them itself. A key whose time is over is then hidden but still there,
    /// and the server aborts if it is created anew. So what may create a key asks here first.
    ///
    /// # Errors
    /// The error reply for a client that must try again.
    #[allow(clippy::unused_self, reason = "there is no pause without a server that calls")]
    pub(super) fn ensure_writes_go_on(&self) -> Result<(), ErrorLine> {
        // SAFETY: takes nothing and returns a number.
        match unsafe { api!(RedisModule_AvoidReplicaTraffic()) } {
            0 => Ok(()),
            _ => Err(PAUSED),
        }
    }

    pub(super) fn reply(&self, reply: Reply) {
        match reply {
            Reply::Later => {}
            Reply::Nil => self.reply_nil(),
            Reply::Number(number) => self.reply_number(number),
            Reply::Pair(first, second) => {
                // SAFETY: the context is alive; two elements follow.
                unsafe { api!(RedisModule_ReplyWithArray(self.0, 2)) };
                for element in [first, second] {
                    element.map_or_else(|| self.reply_nil(), |number| self.reply_number(number));
                }
            }
        }
    }

    pub(super) fn reply_error(&self, line: &CStr) {
        // SAFETY: the context is alive; the line is copied.
        unsafe { api!(RedisModule_ReplyWithError(self.0, line.as_ptr())) };
    }

    fn reply_nil(&self) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithNull(self.0)) };
    }

    fn reply_number(&self, number: i64) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.0, number)) };
    }

    /// Tells WATCH and client tracking that a key has changed. The module asked the server not to guess it from keys
    /// that were opened for writing, since most refusals come from such keys too.
    pub(super) fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: the context and the key's name are alive.
        unsafe { api!(RedisModule_SignalModifiedKey(self.0, key.as_ptr())) };
    }

    /// Announces a keyspace event. Other callbacks may run, and change keys, before this returns.
    pub(super) fn announce(&self, class: EventClass, event: &CStr, key: Str<'_>) {
        let class: c_int = match class {
            EventClass::Generic => raw::REDISMODULE_NOTIFY_GENERIC,
            EventClass::Hash => raw::REDISMODULE_NOTIFY_HASH,
            EventClass::Text => raw::REDISMODULE_NOTIFY_STRING,
        };
        // SAFETY: the context, the event's name and the key's name are alive; the server keeps neither name.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.0, class, event.as_ptr(), key.as_ptr())) };
    }
}

const PAUSED: ErrorLine = ErrorLine(c"TRYAGAIN writes are paused on this server");
