//! The plain commands that replicas and AOF files get. The server puts all that one command replicates into one
//! MULTI/EXEC.
//!
//! Each of these is looked up by name when it is replicated, and lost without an error if it is not there; so a server
//! whose configuration has renamed one of them must not load the module: [`missing_command`] tells.

use super::api::api;
use super::context::Context;
use super::string::{OwnedStr, Str};
use crate::lock::UnixMs;
use std::ffi::CStr;

const COMMANDS: [&CStr; 10] = [
    c"HSET",
    c"HINCRBY",
    c"HDEL",
    c"PEXPIREAT",
    c"DEL",
    c"SET",
    c"INCR",
    c"PUBLISH",
    c"SPUBLISH",
    // Not replicated by us, but what the server itself replicates its blocks with.
    c"MULTI",
];

/// A command of ours that the server does not know by its name.
pub(super) fn missing_command(context: &Context) -> Option<&'static CStr> {
    COMMANDS.into_iter().find(|name| {
        let argument = OwnedStr::new(name.to_bytes());
        let mut arguments = [argument.lend().as_ptr()];
        let mut keys = 0;
        // SAFETY: one argument is passed. With no arguments beside its name each of these commands is either refused
        // for that, or has no keys, so no list of keys comes back that we would have to free; the reason is in errno.
        let list =
            unsafe { api!(RedisModule_GetCommandKeys(context.as_ptr(), arguments.as_mut_ptr(), 1, &raw mut keys)) };
        list.is_null() && std::io::Error::last_os_error().kind() == std::io::ErrorKind::NotFound
    })
}

pub(super) fn hset(context: &Context, key: Str<'_>, field: Str<'_>, value: Str<'_>) {
    let format = c"sss".as_ptr();
    // SAFETY: the format says three strings, and three are passed.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"HSET".as_ptr(),
            format,
            key.as_ptr(),
            field.as_ptr(),
            value.as_ptr()
        ));
    }
}

pub(super) fn hset_two(context: &Context, key: Str<'_>, first: (Str<'_>, Str<'_>), second: (Str<'_>, Str<'_>)) {
    let format = c"sssss".as_ptr();
    // SAFETY: the format says five strings, and five are passed.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"HSET".as_ptr(),
            format,
            key.as_ptr(),
            first.0.as_ptr(),
            first.1.as_ptr(),
            second.0.as_ptr(),
            second.1.as_ptr(),
        ));
    }
}

pub(super) fn hincrby(context: &Context, key: Str<'_>, field: Str<'_>, by: i64) {
    let format = c"ssl".as_ptr();
    // SAFETY: the format says two strings and a long long, and these are passed.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), c"HINCRBY".as_ptr(), format, key.as_ptr(), field.as_ptr(), by));
    }
}

pub(super) fn hdel(context: &Context, key: Str<'_>, field: Str<'_>) {
    // SAFETY: the format says two strings, and two are passed.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), c"HDEL".as_ptr(), c"ss".as_ptr(), key.as_ptr(), field.as_ptr()));
    }
}

pub(super) fn hdel_all(context: &Context, key: Str<'_>, fields: &[OwnedStr]) {
    let fields: Vec<_> = fields.iter().map(|field| field.lend().as_ptr()).collect();
    let format = c"sv".as_ptr();
    // SAFETY: the format says a string and a vector of strings with its length, and these are passed.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"HDEL".as_ptr(),
            format,
            key.as_ptr(),
            fields.as_ptr(),
            fields.len()
        ));
    }
}

pub(super) fn pexpireat(context: &Context, key: Str<'_>, at: UnixMs) {
    // SAFETY: the format says a string and a long long, and these are passed.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), c"PEXPIREAT".as_ptr(), c"sl".as_ptr(), key.as_ptr(), at));
    }
}

pub(super) fn del(context: &Context, key: Str<'_>) {
    one_key(context, c"DEL", key);
}

pub(super) fn incr(context: &Context, key: Str<'_>) {
    one_key(context, c"INCR", key);
}

fn one_key(context: &Context, command: &CStr, key: Str<'_>) {
    // SAFETY: the format says one string, and one is passed.
    unsafe { api!(RedisModule_Replicate(context.as_ptr(), command.as_ptr(), c"s".as_ptr(), key.as_ptr())) };
}

/// `SET key value PXAT end`
pub(super) fn set_until(context: &Context, key: Str<'_>, value: Str<'_>, end: UnixMs) {
    let format = c"sscl".as_ptr();
    // SAFETY: the format says two strings, a C string and a long long, and these are passed.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"SET".as_ptr(),
            format,
            key.as_ptr(),
            value.as_ptr(),
            c"PXAT".as_ptr(),
            end,
        ));
    }
}

/// To the replicas' subscribers; the AOF file (`A`) is spared.
pub(super) fn publish(context: &Context, command: &CStr, channel: Str<'_>, message: Str<'_>) {
    let format = c"Ass".as_ptr();
    // SAFETY: the format says two strings, beside the modifier, and two are passed.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), command.as_ptr(), format, channel.as_ptr(), message.as_ptr()));
    }
}
