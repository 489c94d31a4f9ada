//! The module's settings: as load arguments, in the server's configuration file, and by CONFIG SET and GET.
//!
//! A load argument replaces the default of a setting. The configuration file, `MODULE LOADEX … CONFIG` and CONFIG SET
//! override it.

use crate::server::ffi::api::{api, at_load, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::server::ffi::this_server;
use redis_module::configuration::{ConfigurationFlags, register_i64_configuration};
use redis_module::raw;
use rlock_core::lock::decimal;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// The values of `notify`, each with two flags: whether Redisson's waiters are notified of an unlock by PUBLISH, and whether
/// by SPUBLISH. `auto` is what Redisson's own clients pick: SPUBLISH in cluster mode, else PUBLISH.
const NOTIFY: [(&CStr, Option<[bool; 2]>); 5] = [
    (c"auto", None),
    (c"publish", Some([true, false])),
    (c"spublish", Some([false, true])),
    (c"both", Some([true, true])),
    (c"off", Some([false, false])),
];

/// The values of `tokens`. With `clock` a fencing token is the time in µs, or the counter's next number if that is larger.
const TOKENS: [&CStr; 2] = [c"clock", c"count"];

/// A setting that is a number: how many there may be of something, or how long it may take.
pub struct Limit {
    name: &'static str,
    default: i64,
    most: i64,
    value: AtomicI64,
}

impl Limit {
    const fn new(name: &'static str, default: i64, most: i64) -> Self {
        Self { name, default, most, value: AtomicI64::new(default) }
    }

    pub fn get(&self) -> usize {
        usize::try_from(self.value.load(Ordering::Relaxed)).unwrap_or(0)
    }

    #[inline]
    pub fn get_ms(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A setting that is one of several words.
pub struct Choice {
    name: &'static CStr,
    /// The index of the chosen word.
    chosen: AtomicI32,
}

impl Choice {
    const fn new(name: &'static CStr) -> Self {
        Self { name, chosen: AtomicI32::new(0) }
    }

    fn place(&self) -> usize {
        usize::try_from(self.chosen.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Takes a load argument.
    fn take(&self, words: &[&CStr], value: Option<&[u8]>) -> Result<(), String> {
        let is_it = |word: &CStr| value.is_some_and(|value| value.eq_ignore_ascii_case(word.to_bytes()));
        let usage = || {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            let (last, others) =
                words.split_last().map_or(("".into(), &[][..]), |(last, others)| (last.clone(), others));
            format!("load argument {} must be followed by {} or {last}", self.name.to_string_lossy(), others.join(", "))
        };
        let (place, _) = (0..).zip(words).find(|(_, word)| is_it(word)).ok_or_else(usage)?;
        self.chosen.store(place, Ordering::Relaxed);
        Ok(())
    }

    fn register(&'static self, context: &Context, words: &[&CStr]) {
        let names: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        let places: Vec<c_int> = (0..).take(words.len()).collect();
        // SAFETY: the context is alive; names and values are as many as passed, and are copied with everything else. The
        // callbacks get this, which lives forever.
        unsafe {
            api!(RedisModule_RegisterEnumConfig(
                context.as_ptr(),
                self.name.as_ptr(),
                self.chosen.load(Ordering::Relaxed),
                raw::REDISMODULE_CONFIG_DEFAULT,
                names.as_ptr().cast_mut(),
                places.as_ptr(),
                c_int::try_from(words.len()).unwrap_or(0),
                Some(get_choice),
                Some(set_choice),
                None,
                ptr::from_ref(self).cast_mut().cast(),
            ));
        }
    }
}

pub struct Settings {
    /// One of [`NOTIFY`].
    notify: Choice,
    /// One of [`TOKENS`].
    tokens: Choice,
    /// For how many ms no lock gets a new holder after this server became a master or was started; also the maximum of a
    /// lease. 0: no grace and no maximum.
    pub grace: Limit,
    /// Claims of blocked clients: a client has one for each lock that it waits for.
    pub max_waiters: Limit,
    /// Claims of the tickets that are in use, over all sessions.
    pub max_tickets: Limit,
    /// Claims of the tickets of one user; 0: see [`rlock_core::waiting::Most`].
    pub max_tickets_per_user: Limit,
    /// Sessions that are open.
    pub max_sessions: Limit,
    /// Sessions of one user; 0 as for tickets.
    pub max_sessions_per_user: Limit,
    /// Bytes of one stored answer.
    pub max_answer: Limit,
}

/// A day. No operator lets all locks lie idle for longer, and a digit too many is refused.
const GRACE_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

pub static SETTINGS: Settings = Settings::new();

impl Settings {
    const fn new() -> Self {
        Self {
            notify: Choice::new(c"notify"),
            tokens: Choice::new(c"tokens"),
            grace: Limit::new("grace", 0, GRACE_MS_MAX),
            max_waiters: Limit::new("max-waiters", 10_000, 1_000_000),
            max_tickets: Limit::new("max-tickets", 1_000_000, 100_000_000),
            max_tickets_per_user: Limit::new("max-tickets-per-user", 0, 100_000_000),
            max_sessions: Limit::new("max-sessions", 10_000, 1_000_000),
            max_sessions_per_user: Limit::new("max-sessions-per-user", 0, 1_000_000),
            max_answer: Limit::new("max-answer", 64 * 1024, 8 * 1024 * 1024),
        }
    }

    fn limits(&self) -> [&Limit; 7] {
        let Self { max_waiters, max_tickets, max_tickets_per_user, .. } = self;
        let Self { max_sessions, max_sessions_per_user, grace, max_answer, .. } = self;
        [max_waiters, max_tickets, max_tickets_per_user, max_sessions, max_sessions_per_user, grace, max_answer]
    }

    /// Whether a fencing token is never below the time.
    pub fn tokens_go_by_clock(&self) -> bool {
        self.tokens.place() == 0
    }

    /// Whether an unlock is published by PUBLISH, and whether by SPUBLISH.
    pub fn notify(&self) -> [bool; 2] {
        let chosen = NOTIFY.get(self.notify.place()).and_then(|(_, chosen)| *chosen);
        chosen.unwrap_or([!this_server::is_in_cluster(), this_server::is_in_cluster()])
    }

    /// Takes the load arguments: pairs of a setting, with or without `rlock.` before it, and a value. All other settings get
    /// their defaults again, since an earlier attempt to load the module may have changed them.
    fn take<'a>(&self, mut arguments: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
        for choice in [&self.notify, &self.tokens] {
            choice.chosen.store(0, Ordering::Relaxed);
        }
        self.limits().into_iter().for_each(|limit| limit.value.store(limit.default, Ordering::Relaxed));
        while let Some(argument) = arguments.next() {
            let lower = argument.to_ascii_lowercase();
            let name = lower.strip_prefix(b"rlock.").unwrap_or(&lower);
            let value = arguments.next();
            if name == b"notify" {
                self.notify.take(&NOTIFY.map(|(word, _)| word), value)?;
            } else if name == b"tokens" {
                self.tokens.take(&TOKENS, value)?;
            } else if let Some(Limit { name, most, value: limit, .. }) =
                self.limits().into_iter().find(|limit| limit.name.as_bytes() == name)
            {
                let number = value.and_then(decimal).filter(|number| (0..=*most).contains(number));
                let usage = || format!("load argument {name} must be followed by an integer from 0 to {most}");
                limit.store(number.ok_or_else(usage)?, Ordering::Relaxed);
            } else {
                let names = self.limits().map(|limit| limit.name).join(", ");
                return Err(format!(
                    "load argument {:?} is not a setting: there are notify, tokens, {names}",
                    String::from_utf8_lossy(argument)
                ));
            }
        }
        Ok(())
    }
}

/// Registers the settings, with the load arguments as their defaults, and reads their values from the configuration.
pub fn load(context: &Context, arguments: &[Str<'_>]) -> Result<(), String> {
    SETTINGS.take(arguments.iter().map(|argument| argument.bytes()))?;
    let server = redis_module::Context::new(context.as_ptr());
    for Limit { name, most, value, .. } in SETTINGS.limits() {
        let default = value.load(Ordering::Relaxed);
        register_i64_configuration(&server, name, value, default, 0, *most, ConfigurationFlags::DEFAULT, None);
    }
    SETTINGS.notify.register(context, &NOTIFY.map(|(name, _)| name));
    SETTINGS.tokens.register(context, &TOKENS);
    // SAFETY: the context is alive.
    let loaded = unsafe { api!(RedisModule_LoadConfigs(context.as_ptr())) };
    at_load(loaded, "a setting named rlock.* has a value that it cannot take")
}

extern "C" fn get_choice(_name: *const c_char, choice: *mut c_void) -> c_int {
    // SAFETY: `choice` is what the setting was registered with.
    unsafe { choice.cast::<Choice>().as_ref() }.map_or(0, |choice| choice.chosen.load(Ordering::Relaxed))
}

/// The server passes only values that were registered.
extern "C" fn set_choice(
    _name: *const c_char,
    place: c_int,
    choice: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `choice` is what the setting was registered with.
    if let Some(choice) = unsafe { choice.cast::<Choice>().as_ref() } {
        choice.chosen.store(place, Ordering::Relaxed);
    }
    flag::OK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<([usize; 2], [usize; 7]), String> {
        let settings = Settings::new();
        settings.take(arguments.iter().map(|argument| argument.as_bytes()))?;
        Ok(([settings.notify.place(), settings.tokens.place()], settings.limits().map(Limit::get)))
    }

    #[test]
    fn load_arguments_are_pairs_in_any_case_and_with_either_name() {
        assert_eq!(parse(&[]), Ok(([0, 0], [10_000, 1_000_000, 0, 10_000, 0, 0, 65_536])));
        assert_eq!(
            parse(&["NOTIFY", "Both", "rlock.max-waiters", "0", "Max-Sessions", "7", "max-sessions-per-user", "3"]),
            Ok(([3, 0], [0, 1_000_000, 0, 7, 3, 0, 65_536]))
        );
        assert_eq!(
            parse(&["Tokens", "COUNT", "rlock.grace", "30000"]),
            Ok(([0, 1], [10_000, 1_000_000, 0, 10_000, 0, 30_000, 65_536]))
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
            (&["tokens"], "tokens must be followed by clock or count"),
            (&["tokens", "time"], "tokens must be followed by clock or count"),
            (&["max-answer", "8388609"], "max-answer must be followed by an integer from 0 to 8388608"),
            (&["grace", "86400001"], "grace must be followed by an integer from 0 to 86400000"),
            (&["colour", "red"], "\"colour\""),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
