//! The module's settings: as load arguments, in the server's configuration file, and by CONFIG SET and GET.
//!
//! A load argument replaces the default of a setting; the configuration file, `MODULE LOADEX … CONFIG` and CONFIG SET
//! come after it.

use crate::server::ffi::api::{api, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::raw;
use rlock_core::lock::decimal;
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

/// A setting that limits how many there may be of something.
struct Limit {
    name: &'static CStr,
    default: i64,
    most: i64,
    value: AtomicI64,
}

impl Limit {
    const fn new(name: &'static CStr, default: i64, most: i64) -> Self {
        Self { name, default, most, value: AtomicI64::new(default) }
    }

    fn get(&self) -> usize {
        usize::try_from(self.value.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn usage(&self) -> String {
        format!("load argument {} must be followed by an integer from 0 to {}", self.name.to_string_lossy(), self.most)
    }
}

struct Settings {
    notify: AtomicI32,
    limits: [Limit; 4],
}

static SETTINGS: Settings = Settings {
    notify: AtomicI32::new(Notify::Auto as i32),
    limits: [
        Limit::new(c"max-waiters", 10_000, 1_000_000),
        Limit::new(c"max-tickets", 1_000_000, 100_000_000),
        Limit::new(c"max-sessions", 10_000, 1_000_000),
        Limit::new(c"max-sessions-per-user", 0, 1_000_000),
    ],
};

pub fn notify() -> Notify {
    let value = SETTINGS.notify.load(Ordering::Relaxed);
    NOTIFY_VALUES.iter().find(|(_, notify)| *notify as i32 == value).map_or(Notify::Auto, |(_, notify)| *notify)
}

/// The number of clients that may be blocked until a lock is theirs.
pub fn max_waiters() -> usize {
    let [waiters, ..] = &SETTINGS.limits;
    waiters.get()
}

/// The number of tickets that may be in use, over all sessions.
pub fn max_tickets() -> usize {
    let [_, tickets, ..] = &SETTINGS.limits;
    tickets.get()
}

/// The number of sessions that may be open.
pub fn max_sessions() -> usize {
    let [.., sessions, _] = &SETTINGS.limits;
    sessions.get()
}

/// The number of them that may be one user's. 0 is the default, and no limit of its own: see [`rlock_core::waiting::Room`].
pub fn max_sessions_per_user() -> usize {
    let [.., of_user] = &SETTINGS.limits;
    of_user.get()
}

/// Registers the settings, with the load arguments as their defaults, and reads what the configuration says of them.
pub fn load(context: &Context, arguments: &[Str<'_>]) -> Result<(), String> {
    let defaults = Defaults::parse(arguments.iter().map(|argument| argument.bytes()))?;
    let names = NOTIFY_VALUES.map(|(name, _)| name.as_ptr());
    let values = NOTIFY_VALUES.map(|(_, value)| value as c_int);
    // SAFETY: names and values are as many as said, and are copied with everything else; the callbacks get a limit,
    // which lives for ever, or nothing.
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
        let limits = SETTINGS.limits.iter().zip(defaults.limits).map(|(limit, default)| {
            api!(RedisModule_RegisterNumericConfig(
                context.as_ptr(),
                limit.name.as_ptr(),
                default,
                raw::REDISMODULE_CONFIG_DEFAULT,
                0,
                limit.most,
                Some(get_limit),
                Some(set_limit),
                None,
                (&raw const *limit).cast_mut().cast(),
            ))
        });
        let mut registered: Vec<_> = limits.chain([notify]).collect();
        registered.push(api!(RedisModule_LoadConfigs(context.as_ptr())));
        registered
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
    /// Of the limits of [`SETTINGS`], in their order.
    limits: [i64; SETTINGS.limits.len()],
}

impl Defaults {
    fn new() -> Self {
        let mut limits = [0; SETTINGS.limits.len()];
        limits.iter_mut().zip(&SETTINGS.limits).for_each(|(default, limit)| *default = limit.default);
        Self { notify: Notify::Auto, limits }
    }

    /// Load arguments are pairs of a setting, with or without `rlock.` before it, and a value.
    fn parse<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Result<Self, String> {
        let mut defaults = Self::new();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let lower = argument.to_ascii_lowercase();
            let name = lower.strip_prefix(b"rlock.").unwrap_or(&lower);
            let value = arguments.next();
            let limit =
                SETTINGS.limits.iter().zip(&mut defaults.limits).find(|(limit, _)| limit.name.to_bytes() == name);
            if name == b"notify" {
                defaults.notify = value.and_then(notify_from).ok_or(NOTIFY_USAGE)?;
            } else if let Some((limit, default)) = limit {
                let number = value.and_then(decimal).filter(|number| (0..=limit.most).contains(number));
                *default = number.ok_or_else(|| limit.usage())?;
            } else {
                return Err(format!(
                    "load argument {:?} is not a setting: there are notify, max-waiters, max-tickets, max-sessions and max-sessions-per-user",
                    String::from_utf8_lossy(argument)
                ));
            }
        }
        Ok(defaults)
    }
}

fn notify_from(value: &[u8]) -> Option<Notify> {
    NOTIFY_VALUES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name.to_bytes())).map(|(_, notify)| *notify)
}

extern "C" fn get_notify(_name: *const c_char, _private: *mut c_void) -> c_int {
    SETTINGS.notify.load(Ordering::Relaxed)
}

/// The server passes only values that were registered.
extern "C" fn set_notify(
    _name: *const c_char,
    value: c_int,
    _private: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    SETTINGS.notify.store(value, Ordering::Relaxed);
    flag::OK
}

extern "C" fn get_limit(_name: *const c_char, limit: *mut c_void) -> c_longlong {
    // SAFETY: registered with one of the limits, which live for ever.
    unsafe { limit.cast_const().cast::<Limit>().as_ref() }.map_or(0, |limit| limit.value.load(Ordering::Relaxed))
}

/// The server passes only values within the registered range.
extern "C" fn set_limit(
    _name: *const c_char,
    value: c_longlong,
    limit: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: registered with one of the limits, which live for ever.
    if let Some(limit) = unsafe { limit.cast_const().cast::<Limit>().as_ref() } {
        limit.value.store(value, Ordering::Relaxed);
    }
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
        assert_eq!(parse(&[]), Ok(Defaults { notify: Notify::Auto, limits: [10_000, 1_000_000, 10_000, 0] }));
        assert_eq!(
            parse(&["NOTIFY", "Both", "rlock.max-waiters", "0", "Max-Sessions", "7", "max-sessions-per-user", "3"]),
            Ok(Defaults { notify: Notify::Both, limits: [0, 1_000_000, 7, 3] })
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
            (&["max-tickets", "100000001"], "max-tickets must be followed by an integer from 0 to 100000000"),
            (&["max-sessions", "many"], "max-sessions must be followed by an integer from 0 to 1000000"),
            (&["colour", "red"], "\"colour\""),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
