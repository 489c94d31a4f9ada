//! Strings that many commands need and that never change, made once at load.

use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{Mode, Refusal, names};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(super) struct Constants {
    pub mode: OwnedStr,
    pub read: OwnedStr,
    pub write: OwnedStr,
    pub zero: OwnedStr,
    pub one: OwnedStr,
    pub absttl: OwnedStr,
    pub replace: OwnedStr,
}

static CONSTANTS: AtomicPtr<Constants> = AtomicPtr::new(ptr::null_mut());

pub fn make() {
    let constants = Constants {
        mode: OwnedStr::new(names::MODE_FIELD),
        read: OwnedStr::new(b"read"),
        write: OwnedStr::new(b"write"),
        zero: OwnedStr::new(b"0"),
        one: OwnedStr::new(b"1"),
        absttl: OwnedStr::new(b"ABSTTL"),
        replace: OwnedStr::new(b"REPLACE"),
    };
    CONSTANTS.store(Box::into_raw(Box::new(constants)), Ordering::Relaxed);
}

pub(super) fn get() -> &'static Constants {
    // SAFETY: made before the first command, and never written to or freed.
    match unsafe { CONSTANTS.load(Ordering::Relaxed).as_ref() } {
        Some(constants) => constants,
        None => not_made(),
    }
}

#[cold]
#[allow(clippy::panic, reason = "caught at the command's edge; they are made before there is any command")]
fn not_made() -> ! {
    panic!("the module's constant strings are asked for before loading has made them")
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
