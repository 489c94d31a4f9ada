//! All that the module keeps of waiting between two calls of the server.
//!
//! The engine is lent to one call at a time. What it does to keys may run others' code before it returns: another module's,
//! in the event of a key, or the server's, when it comes across a key whose time is over. What the module is told then goes
//! into the inbox, and the engine reads it as soon as it has looked at a lock, or is done. A command that another module
//! calls within such an event is refused: what it asked for is half done.

use super::blocked_client::{BlockedClient, Callbacks, ClientKey};
use super::listening::Listening;
use crate::server::edge::ErrorLine;
use crate::server::ffi::main_thread::MainThread;
use foldhash::fast::RandomState;
use redis_module::raw;
use rlock_core::lock::UnixMs;
use rlock_core::waiting::{Engine, Note, WaitsFor};
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
    /// Set when the module is loaded.
    pub hooks: Cell<Option<Hooks>>,
}

/// What the server calls. Who has it called only knows that.
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
    /// By their number, those that the server unblocked before they could get their answer.
    pub unanswered: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Blocked {
    pub waits_for: WaitsFor,
    /// Since when: see [`super::turn::monotonic_us`].
    pub since_us: u64,
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
/// If it is lent to another one that this one is within.
#[inline]
pub fn engine() -> Result<Lent, ErrorLine> {
    STATE.get().engine.try_borrow_mut().map_err(|_| WITHIN_ANOTHER)
}

/// The next of what was noted while the engine was lent.
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

/// Has the engine note what has happened: now, or as soon as it is back. Returns whether that is something to it.
pub(super) fn note(note: Note) -> bool {
    let Ok(mut engine) = engine() else {
        STATE.get().inbox.borrow_mut().push_back(note);
        return false;
    };
    engine.note(note);
    engine.length() > 0 || engine.has_sessions()
}

const WITHIN_ANOTHER: ErrorLine = ErrorLine(
    c"TRYAGAIN another command of rlock is under way: a module calls commands in a job behind an event, not within it",
);
