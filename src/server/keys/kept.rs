//! What this folder keeps between two calls of the server: strings that many commands need, and what is known of the
//! followers.

use crate::server::ffi::api::MainThread;
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{Mode, names};
use std::cell::Cell;
use std::ffi::c_char;
use std::ptr;

pub(super) struct Kept {
    pub mode: OwnedStr,
    read: OwnedStr,
    write: OwnedStr,
    pub zero: OwnedStr,
    pub one: OwnedStr,
    pub absttl: OwnedStr,
    pub replace: OwnedStr,
    pub pxat: OwnedStr,
    pub keepttl: OwnedStr,
    /// The name of the event that is being announced, if it is about a lock; else null.
    pub announced: Cell<*const c_char>,
    /// Whether the server knows RESTORE by its name. If not, new locks are replicated in more commands.
    pub restores: Cell<bool>,
    /// Whether there are certainly no followers.
    pub has_no_follower: Cell<bool>,
    /// Whether there are certainly no followers with subscribers: an AOF file has none.
    pub has_no_replica: Cell<bool>,
    /// Turns of the server's cron since it was last asked for its followers.
    pub turns: Cell<i32>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            mode: OwnedStr::new(names::MODE_FIELD),
            read: OwnedStr::new(b"read"),
            write: OwnedStr::new(b"write"),
            zero: OwnedStr::new(b"0"),
            one: OwnedStr::new(b"1"),
            absttl: OwnedStr::new(b"ABSTTL"),
            replace: OwnedStr::new(b"REPLACE"),
            pxat: OwnedStr::new(b"PXAT"),
            keepttl: OwnedStr::new(b"KEEPTTL"),
            announced: Cell::new(ptr::null()),
            restores: Cell::default(),
            has_no_follower: Cell::default(),
            has_no_replica: Cell::default(),
            turns: Cell::default(),
        }
    }
}

static KEPT: MainThread<Kept> = MainThread::new();

pub(super) fn kept() -> &'static Kept {
    KEPT.get()
}

/// The field that says what a read-write lock is held for, and its value.
pub(super) fn mode(mode: Mode) -> (Str<'static>, Str<'static>) {
    let Kept { mode: field, read, write, .. } = kept();
    let value = match mode {
        Mode::Read => read,
        Mode::Write => write,
    };
    (field.lend(), value.lend())
}
