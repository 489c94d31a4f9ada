//! Strings that many commands need and that never change, made once at load.

use super::string::{OwnedStr, Str};
use crate::lock::names;
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

pub(super) fn make() {
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
        None => super::api::missing("constants"),
    }
}

/// The value of the hash's `mode`.
pub(super) fn mode_value(mode: crate::lock::Mode) -> Str<'static> {
    match mode {
        crate::lock::Mode::Read => get().read.lend(),
        crate::lock::Mode::Write => get().write.lend(),
    }
}
