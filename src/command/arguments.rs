//! Reading a command's arguments: what every grammar here has in common, and what is wrong with one that breaks it.
//!
//! Generic over what an argument is, so that tests can parse byte strings where the server has strings of its own.

use crate::server::ErrorLine;
use rlock_core::lock::{HOLDER_LEN_MAX, Lease, Limit, decimal, names};

pub(super) fn holder<A: AsRef<[u8]>>(holder: A) -> Result<A, ErrorLine> {
    let bytes = holder.as_ref();
    let collides = || bytes == names::MODE_FIELD || bytes.ends_with(names::WRITE_SUFFIX);
    match bytes.len() {
        1..=HOLDER_LEN_MAX if !collides() => Ok(holder),
        _ => Err(HOLDER),
    }
}

pub(super) fn lease(argument: &[u8]) -> Result<Lease, ErrorLine> {
    decimal(argument).and_then(Lease::from_ms).ok_or(LEASE)
}

/// A session's name: long enough that nobody else hits upon it.
pub(super) fn session<A: AsRef<[u8]>>(argument: Option<A>) -> Result<A, ErrorLine> {
    argument.filter(|name| (16..=64).contains(&name.as_ref().len())).ok_or(SESSION)
}

pub(super) fn ticket<A: AsRef<[u8]>>(argument: Option<A>) -> Result<A, ErrorLine> {
    argument.filter(|name| (1..=64).contains(&name.as_ref().len())).ok_or(TICKET)
}

/// The ms behind WAIT.
pub(super) fn wait_ms<A: AsRef<[u8]>>(argument: Option<A>) -> Result<i64, ErrorLine> {
    argument.and_then(|ms| decimal(ms.as_ref())).filter(|ms| *ms >= 0).ok_or(WAIT)
}

/// The number behind MAX.
pub(super) fn max_waiters<A: AsRef<[u8]>>(argument: Option<A>) -> Result<usize, ErrorLine> {
    let max = argument.and_then(|max| decimal(max.as_ref())).filter(|max| *max >= 1).ok_or(MAX)?;
    // What a server of 32 bits cannot count to, nobody can exceed there.
    Ok(usize::try_from(max).unwrap_or(usize::MAX))
}

/// The number behind LIMIT.
pub(super) fn limit<A: AsRef<[u8]>>(argument: Option<A>) -> Result<Limit, ErrorLine> {
    argument.and_then(|limit| decimal(limit.as_ref())).and_then(Limit::new).ok_or(LIMIT)
}

/// The number of entries that are shown, if the command does not say it.
const COUNT_DEFAULT: usize = 100;

/// The most entries that are shown.
const COUNT_MAX: usize = 10_000;

/// Reads `[COUNT n]`, the only option there is.
pub(super) fn count_option<A: AsRef<[u8]>>(options: &[A], unknown: ErrorLine) -> Result<usize, ErrorLine> {
    let (mut options, mut count) = (options.iter(), None);
    while let Some(option) = options.next() {
        if !option.as_ref().eq_ignore_ascii_case(b"COUNT") {
            return Err(unknown);
        }
        let number = options.next().and_then(|number| decimal(number.as_ref()));
        let number = number.and_then(|number| usize::try_from(number).ok());
        once(&mut count, number.filter(|number| (1..=COUNT_MAX).contains(number)).ok_or(COUNT)?, COUNT_TWICE)?;
    }
    Ok(count.unwrap_or(COUNT_DEFAULT))
}

/// Stores what an option says in `place`, which must be empty: each option is given at most once. `twice` is the error.
pub(super) fn once<T>(place: &mut Option<T>, value: T, twice: ErrorLine) -> Result<(), ErrorLine> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice),
    }
}

pub(super) const WRONG_ARITY: ErrorLine = ErrorLine(c"ERR wrong number of arguments");

pub(super) const HOLDER: ErrorLine =
    ErrorLine(c"ERR holder must be 1 to 512 bytes, and must not be 'mode' or end in ':write'");

pub(super) const LEASE: ErrorLine = ErrorLine(
    c"ERR lease must be an integer number of ms, at least 1, with its end at Unix ms 9223372036854775807 at most",
);

pub(super) const SESSION: ErrorLine = ErrorLine(c"ERR session must be 16 to 64 bytes, such as a UUID");

pub(super) const TICKET: ErrorLine = ErrorLine(c"ERR ticket must be 1 to 64 bytes");

pub(super) const WAIT: ErrorLine =
    ErrorLine(c"ERR WAIT must be an integer number of ms from 0 (for ever) to 9223372036854775807");

pub(super) const WAIT_TWICE: ErrorLine = ErrorLine(c"ERR option WAIT given twice: each is allowed once");

pub(super) const MAX: ErrorLine = ErrorLine(c"ERR MAX must be an integer from 1 to 9223372036854775807");

pub(super) const LIMIT: ErrorLine = ErrorLine(c"ERR LIMIT must be an integer from 1 to 100000");

pub(super) const COUNT: ErrorLine = ErrorLine(c"ERR COUNT must be an integer from 1 to 10000");

pub(super) const COUNT_TWICE: ErrorLine = ErrorLine(c"ERR option COUNT given twice: it is allowed once");
