//! The command under way: its clock, its reply, and what it announces.

use super::api::{api, flag};
use super::entry::ErrorLine;
use super::followers;
use super::latency;
use super::string::Str;
use crate::lock::UnixMs;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

pub struct Context {
    raw: *mut raw::RedisModuleCtx,
    /// Whether a client's command is under way, and not a callback of another kind.
    is_command: bool,
    /// Whether followers would have been told of something, if there were any.
    untold: Cell<bool>,
}

/// What the server calls when something happens to it.
pub(super) type OnEvent = unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

/// What a command says to its client, if it is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// None now: the client waits, and is answered later.
    Later,
    Nil,
    Number(i64),
    /// Written by the command itself, since it is longer than these.
    Written,
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
        Self { raw: context, is_command: false, untold: Cell::new(false) }
    }

    /// # Safety
    /// As [`Self::new`], in the callback of a command.
    pub(super) unsafe fn of_command(context: *mut raw::RedisModuleCtx) -> Self {
        Self { raw: context, is_command: true, untold: Cell::new(false) }
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// Calls back when that happens to the server.
    ///
    /// # Safety
    /// The callback must be one for this event.
    pub(super) unsafe fn on(&self, id: u64, callback: OnEvent) -> c_int {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_SubscribeToServerEvent(self.raw, event, Some(callback))) }
    }

    /// Whether followers are to be told of a change that this command makes. Asked once more for each change, right
    /// after it was made.
    pub(super) fn tells_followers(&self) -> bool {
        let tells = !self.is_command || followers::there_may_be();
        self.untold.set(self.untold.get() || !tells);
        tells
    }

    /// Whether those followers are to be told that have subscribers of their own.
    pub(super) fn tells_replicas(&self) -> bool {
        !self.is_command || followers::there_may_be_replicas()
    }

    /// Lets the server count the command as a change if nobody was told of it, for its save points. This is the one way
    /// that costs nothing where nobody follows; where somebody does, it would replicate the command itself.
    pub(super) fn count_what_was_untold(&self) {
        if self.untold.get() && !followers::there_may_be() {
            // SAFETY: the context is alive, and a command's.
            unsafe { api!(RedisModule_ReplicateVerbatim(self.raw)) };
        }
    }

    /// The server's clock. A command reads it once, so that all it does happens at one moment.
    #[must_use]
    #[allow(clippy::unused_self, reason = "there is no clock without a server that calls")]
    pub fn now(&self) -> UnixMs {
        clock_ms()
    }

    /// Tells the server's latency monitor of an event that began then and ends now.
    pub fn time_since(&self, event: &CStr, began: UnixMs) {
        latency::since(self, event, began);
    }

    /// The database that commands of this context act on.
    #[must_use]
    pub fn database(&self) -> i32 {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetSelectedDb(self.raw)) }
    }

    pub(super) fn select(&self, database: i32) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_SelectDb(self.raw, database)) };
    }

    /// Whether the client of this command can be kept waiting: not in a transaction, a script or another module's call.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.flags() & (flag::IN_SCRIPT | flag::IN_TRANSACTION | flag::DENIES_BLOCKING) == 0
    }

    pub(super) fn flags(&self) -> c_int {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_GetContextFlags(self.raw)) }
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
            Reply::Later | Reply::Written => {}
            Reply::Nil => self.reply_nil(),
            Reply::Number(number) => self.reply_number(number),
            Reply::Pair(first, second) => {
                // SAFETY: the context is alive; two elements follow.
                unsafe { api!(RedisModule_ReplyWithArray(self.raw, 2)) };
                for element in [first, second] {
                    element.map_or_else(|| self.reply_nil(), |number| self.reply_number(number));
                }
            }
        }
    }

    pub(super) fn reply_error(&self, line: &CStr) {
        // SAFETY: the context is alive; the line is copied.
        unsafe { api!(RedisModule_ReplyWithError(self.raw, line.as_ptr())) };
    }

    fn reply_nil(&self) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithNull(self.raw)) };
    }

    fn reply_number(&self, number: i64) {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.raw, number)) };
    }

    /// Tells WATCH and client tracking that a key has changed. The module asked the server not to guess it from keys
    /// that were opened for writing, since most refusals come from such keys too.
    pub(super) fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: the context and the key's name are alive.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw, key.as_ptr())) };
    }

    /// Announces a keyspace event. Other callbacks may run, and change keys, before this returns.
    pub(super) fn announce(&self, class: EventClass, event: &CStr, key: Str<'_>) {
        let class: c_int = match class {
            EventClass::Generic => raw::REDISMODULE_NOTIFY_GENERIC,
            EventClass::Hash => raw::REDISMODULE_NOTIFY_HASH,
            EventClass::Text => raw::REDISMODULE_NOTIFY_STRING,
        };
        ANNOUNCED.store(true, Ordering::Relaxed);
        // SAFETY: the context, the event's name and the key's name are alive; the server keeps neither name.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.raw, class, event.as_ptr(), key.as_ptr())) };
        ANNOUNCED.store(false, Ordering::Relaxed);
    }
}

static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// Whether the event that is heard of is one of ours.
pub(super) fn are_announced() -> bool {
    ANNOUNCED.load(Ordering::Relaxed)
}

/// The server's clock, for callbacks that are given no context.
pub(super) fn clock_ms() -> UnixMs {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_Milliseconds()) }
}

const PAUSED: ErrorLine = ErrorLine(c"TRYAGAIN writes are paused on this server");
