//! The plain commands that replicas and AOF files get. The server puts all that one command replicates into one
//! MULTI/EXEC.
//!
//! The server looks each of these up by name when it is replicated, and loses it without an error if it is not there;
//! so a server whose configuration has renamed one must not load the module: [`missing_command`] finds it.

use super::restore::NewLock;
use super::{followers, kept};
use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::UnixMs;
use std::ffi::CStr;

/// Replicates a command, if anybody follows, with arguments of the types in the format: `s` a string, `l` a long long,
/// `c` a C string, `b` bytes and their number.
macro_rules! replicate {
    ($context:expr, $command:expr, $format:literal, $($argument:expr),+) => {
        if followers::are_told($context) {
            api!(RedisModule_Replicate($context.as_ptr(), $command.as_ptr(), $format.as_ptr(), $($argument),+));
        }
    };
}

const COMMANDS: [&CStr; 11] = [
    c"HSET",
    c"HINCRBY",
    c"HDEL",
    c"PEXPIREAT",
    c"DEL",
    c"SET",
    c"INCR",
    c"PUBLISH",
    c"SPUBLISH",
    // The module does not replicate this one, but the server begins its transactions with it.
    c"MULTI",
    // Nor this one: by it the module asks the server whether a grant may be written.
    c"SETRANGE",
];

pub fn restores() -> bool {
    kept::kept().restores.get()
}

/// Learns which commands there are. Returns one that is needed and that the server does not know by its name.
pub fn missing_command(context: &Context) -> Option<&'static CStr> {
    kept::kept().restores.set(knows(context, c"RESTORE"));
    COMMANDS.into_iter().find(|name| !knows(context, name))
}

fn knows(context: &Context, name: &CStr) -> bool {
    let argument = OwnedStr::new(name.to_bytes());
    let mut arguments = [argument.lend().as_ptr()];
    let mut keys = 0;
    // SAFETY: one argument is passed. With no arguments beside its name each of these commands is either refused
    // for that, or has no keys, so no list of keys comes back that we would have to free; the reason is in errno.
    let list = unsafe { api!(RedisModule_GetCommandKeys(context.as_ptr(), arguments.as_mut_ptr(), 1, &raw mut keys)) };
    !list.is_null() || std::io::Error::last_os_error().kind() != std::io::ErrorKind::NotFound
}

pub(super) fn hset(context: &Context, key: Str<'_>, field: Str<'_>, value: Str<'_>) {
    // SAFETY: three strings.
    unsafe { replicate!(context, c"HSET", c"sss", key.as_ptr(), field.as_ptr(), value.as_ptr()) };
}

pub(super) fn hset_two(context: &Context, key: Str<'_>, first: (Str<'_>, Str<'_>), second: (Str<'_>, Str<'_>)) {
    let (first, first_value) = (first.0.as_ptr(), first.1.as_ptr());
    let (second, second_value) = (second.0.as_ptr(), second.1.as_ptr());
    // SAFETY: five strings.
    unsafe { replicate!(context, c"HSET", c"sssss", key.as_ptr(), first, first_value, second, second_value) };
}

pub(super) fn hincrby(context: &Context, key: Str<'_>, field: Str<'_>, by: i64) {
    // SAFETY: two strings and a long long.
    unsafe { replicate!(context, c"HINCRBY", c"ssl", key.as_ptr(), field.as_ptr(), by) };
}

pub(super) fn hdel(context: &Context, key: Str<'_>, field: Str<'_>) {
    // SAFETY: two strings.
    unsafe { replicate!(context, c"HDEL", c"ss", key.as_ptr(), field.as_ptr()) };
}

pub(super) fn pexpireat(context: &Context, key: Str<'_>, at: UnixMs) {
    // SAFETY: a string and a long long.
    unsafe { replicate!(context, c"PEXPIREAT", c"sl", key.as_ptr(), at) };
}

pub(super) fn del(context: &Context, key: Str<'_>) {
    // SAFETY: one string.
    unsafe { replicate!(context, c"DEL", c"s", key.as_ptr()) };
}

pub(super) fn incr(context: &Context, key: Str<'_>) {
    // SAFETY: one string.
    unsafe { replicate!(context, c"INCR", c"s", key.as_ptr()) };
}

/// `RESTORE key end <the lock> ABSTTL REPLACE`
pub(super) fn restore(context: &Context, key: Str<'_>, lock: &NewLock<'_>) {
    let (dump, constants) = (lock.dump(), kept::get());
    let (absttl, replace) = (constants.absttl.lend().as_ptr(), constants.replace.lend().as_ptr());
    let (bytes, length) = (dump.as_ptr(), dump.len());
    // SAFETY: a string, a long long, bytes with their length, and two strings.
    unsafe { replicate!(context, c"RESTORE", c"slbss", key.as_ptr(), lock.end, bytes, length, absttl, replace) };
}

/// `SET key value PXAT end`
pub(super) fn set_until(context: &Context, key: Str<'_>, value: Str<'_>, end: UnixMs) {
    // SAFETY: two strings, a C string and a long long.
    unsafe { replicate!(context, c"SET", c"sscl", key.as_ptr(), value.as_ptr(), c"PXAT".as_ptr(), end) };
}

/// Published to the replicas' subscribers, but not written to the AOF file (`A`).
pub(super) fn publish(context: &Context, command: &CStr, channel: Str<'_>, message: Str<'_>) {
    if !followers::replicas_are_told(context) {
        return;
    }
    // SAFETY: two strings, behind the modifier.
    unsafe { replicate!(context, command, c"Ass", channel.as_ptr(), message.as_ptr()) };
}
