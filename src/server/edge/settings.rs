//! The module's settings: as load arguments, in the server's configuration file, and by CONFIG SET and GET.
//!
//! A load argument replaces the default of a setting; the configuration file, `MODULE LOADEX … CONFIG` and CONFIG SET
//! come after it.

use crate::lock::decimal;
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// The publish command by which Redisson's waiters learn of an unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// What Redisson's own clients pick: SPUBLISH in cluster mode, else PUBLISH.
    Auto = 0,
    Publish = 1,
    Spublish = 2,
    Both = 3,
    Off = 4,
}

const NOTIFY_COUNT: c_int = 5;
const NOTIFY_USAGE: &str = "load argument notify must be followed by auto, publish, spublish, both or off";

const NOTIFY_VALUES: [(&CStr, Notify); NOTIFY_COUNT as usize] = [
    (c"auto", Notify::Auto),
    (c"publish", Notify::Publish),
    (c"spublish", Notify::Spublish),
    (c"both", Notify::Both),
    (c"off", Notify::Off),
];

const MAX_WAITERS_DEFAULT: i64 = 10_000;
const MAX_WAITERS_MOST: i64 = 1_000_000;

static NOTIFY: AtomicI32 = AtomicI32::new(Notify::Auto as i32);
static MAX_WAITERS: AtomicI64 = AtomicI64::new(MAX_WAITERS_DEFAULT);

pub fn notify() -> Notify {
    let value = NOTIFY.load(Ordering::Relaxed);
    NOTIFY_VALUES.iter().find(|(_, notify)| *notify as i32 == value).map_or(Notify::Auto, |(_, notify)| *notify)
}

/// The number of clients that may wait, over all locks.
pub fn max_waiters() -> usize {
    usize::try_from(MAX_WAITERS.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Registers the settings, with the load arguments as their defaults, and reads what the configuration says of them.
pub fn load(context: &Context, arguments: &[Str<'_>]) -> Result<(), String> {
    let defaults = Defaults::parse(arguments.iter().map(|argument| argument.bytes()))?;
    let names = NOTIFY_VALUES.map(|(name, _)| name.as_ptr());
    let values = NOTIFY_VALUES.map(|(_, value)| value as c_int);
    // SAFETY: names and values are as many as said, and are copied with everything else; the callbacks take no
    // private data.
    let registered = unsafe {
        let notify = api!(RedisModule_RegisterEnumConfig(
            context.as_ptr(),
            c"notify".as_ptr(),
            defaults.notify as c_int,
            raw::REDISMODULE_CONFIG_DEFAULT,
            names.as_ptr().cast_mut(),
            values.as_ptr(),
            NOTIFY_COUNT,
            Some(get_notify),
            Some(set_notify),
            None,
            ptr::null_mut(),
        ));
        let max_waiters = api!(RedisModule_RegisterNumericConfig(
            context.as_ptr(),
            c"max-waiters".as_ptr(),
            defaults.max_waiters,
            raw::REDISMODULE_CONFIG_DEFAULT,
            0,
            MAX_WAITERS_MOST,
            Some(get_max_waiters),
            Some(set_max_waiters),
            None,
            ptr::null_mut(),
        ));
        [notify, max_waiters, api!(RedisModule_LoadConfigs(context.as_ptr()))]
    };
    if registered.iter().all(|result| *result == flag::OK) {
        Ok(())
    } else {
        Err("a setting named rlock.* has a value that it cannot take".to_owned())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Defaults {
    notify: Notify,
    max_waiters: i64,
}

impl Defaults {
    /// Load arguments are pairs of a setting, with or without `rlock.` before it, and a value.
    fn parse<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Result<Self, String> {
        let mut defaults = Self { notify: Notify::Auto, max_waiters: MAX_WAITERS_DEFAULT };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let lower = name.to_ascii_lowercase();
            let value = arguments.next();
            match lower.strip_prefix(b"rlock.").unwrap_or(&lower) {
                b"notify" => defaults.notify = value.and_then(notify_from).ok_or(NOTIFY_USAGE)?,
                b"max-waiters" => {
                    defaults.max_waiters = value.and_then(max_waiters_from).ok_or_else(max_waiters_usage)?;
                }
                _ => {
                    return Err(format!(
                        "load argument {:?} is not a setting: there are notify and max-waiters",
                        String::from_utf8_lossy(name)
                    ));
                }
            }
        }
        Ok(defaults)
    }
}

fn notify_from(value: &[u8]) -> Option<Notify> {
    NOTIFY_VALUES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name.to_bytes())).map(|(_, notify)| *notify)
}

fn max_waiters_from(value: &[u8]) -> Option<i64> {
    decimal(value).filter(|most| (0..=MAX_WAITERS_MOST).contains(most))
}

fn max_waiters_usage() -> String {
    format!("load argument max-waiters must be followed by an integer from 0 to {MAX_WAITERS_MOST}")
}

extern "C" fn get_notify(_name: *const c_char, _private: *mut c_void) -> c_int {
    NOTIFY.load(Ordering::Relaxed)
}

/// The server passes only values that were registered.
extern "C" fn set_notify(
    _name: *const c_char,
    value: c_int,
    _private: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    NOTIFY.store(value, Ordering::Relaxed);
    flag::OK
}

extern "C" fn get_max_waiters(_name: *const c_char, _private: *mut c_void) -> c_longlong {
    MAX_WAITERS.load(Ordering::Relaxed)
}

/// The server passes only values within the registered range.
extern "C" fn set_max_waiters(
    _name: *const c_char,
    value: c_longlong,
    _private: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    MAX_WAITERS.store(value, Ordering::Relaxed);
    flag::OK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Defaults, String> {
        Defaults::parse(arguments.iter().map(|argument| argument.as_bytes()))
    }

    #[test]
    fn load_arguments_are_pairs_in_any_case_and_with_either_name() {
        assert_eq!(parse(&[]), Ok(Defaults { notify: Notify::Auto, max_waiters: MAX_WAITERS_DEFAULT }));
        assert_eq!(
            parse(&["NOTIFY", "Both", "rlock.max-waiters", "0"]),
            Ok(Defaults { notify: Notify::Both, max_waiters: 0 })
        );
    }

    #[test]
    fn a_wrong_load_argument_is_named() {
        for (arguments, named) in [
            (&["notify"][..], "auto, publish, spublish, both or off"),
            (&["notify", "loud"], "auto, publish, spublish, both or off"),
            (&["max-waiters"], "from 0 to 1000000"),
            (&["max-waiters", "-1"], "from 0 to 1000000"),
            (&["max-waiters", "1000001"], "from 0 to 1000000"),
            (&["colour", "red"], "\"colour\""),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
