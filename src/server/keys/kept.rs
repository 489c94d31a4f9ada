//! What this folder keeps between two calls of the server: strings that many commands need, and what is known of who
//! follows.

use crate::server::ffi::main_thread::MainThread;
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{Mode, Refusal, names};
use std::cell::Cell;
use std::ffi::c_char;

pub(super) struct Constants {
    pub mode: OwnedStr,
    pub read: OwnedStr,
    pub write: OwnedStr,
    pub zero: OwnedStr,
    pub one: OwnedStr,
    pub absttl: OwnedStr,
    pub replace: OwnedStr,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            mode: OwnedStr::new(names::MODE_FIELD),
            read: OwnedStr::new(b"read"),
            write: OwnedStr::new(b"write"),
            zero: OwnedStr::new(b"0"),
            one: OwnedStr::new(b"1"),
            absttl: OwnedStr::new(b"ABSTTL"),
            replace: OwnedStr::new(b"REPLACE"),
        }
    }
}

#[derive(Default)]
pub(super) struct Kept {
    constants: Constants,
    /// The name of the event that is being announced, if it is about a lock.
    pub announced: Cell<Option<*const c_char>>,
    /// Whether the server knows RESTORE by its name. Without, new locks are replicated in more commands.
    pub restores: Cell<bool>,
    pub followers: Followers,
}

/// What the server has said of its followers.
#[derive(Default)]
pub(super) struct Followers {
    /// There are certainly none.
    pub none: Cell<bool>,
    /// There are certainly none that have subscribers, which an AOF file does not have.
    pub no_replicas: Cell<bool>,
    /// Turns of the server's cron since it was last asked.
    pub turns: Cell<i32>,
}

static KEPT: MainThread<Kept> = MainThread::new();

pub(super) fn kept() -> &'static Kept {
    KEPT.get()
}

pub(super) fn get() -> &'static Constants {
    &KEPT.get().constants
}

/// The value of the hash's `mode`.
pub(super) fn mode_value(mode: Mode) -> Str<'static> {
    match mode {
        Mode::Read => get().read.lend(),
        Mode::Write => get().write.lend(),
    }
}

/// The mode that a value of the field says.
pub(super) fn mode_of(value: &OwnedStr) -> Result<Mode, Refusal> {
    match value.lend().bytes() {
        b"read" => Ok(Mode::Read),
        b"write" => Ok(Mode::Write),
        _ => Err(Refusal::WrongType),
    }
}
