//! The lock was not got, so nothing was run: what is said about it, and with which code.

use super::limit;
use crate::arguments::Run;
use crate::exit;
use crate::failure::{Failure, say};
use crate::shown;
use rlock_client::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;

/// It was not free in time.
pub fn in_time(wish: &Run) -> u8 {
    let waited = match limit(wish) {
        Some(limit) if !limit.is_zero() => format!(" within {}", shown::time(limit)),
        _ => String::new(),
    };
    busy(wish, &format!("not free{waited}, so nothing was run; rlock inspect shows who has it"))
}

/// The server at that address did not give it.
pub fn for_a_reason(wish: &Run, server: &str, error: &Error) -> Result<u8, Failure> {
    match (error.kind(), error.code()) {
        // Somebody has looked who waits, and does not want this one to.
        (_, Some("UNBLOCKED")) => Ok(busy(wish, "an operator has ended the wait (CLIENT UNBLOCK), so nothing was run")),
        (ErrorKind::Unavailable, Some(code)) => {
            let advice = match code {
                "OOM" => "give it more maxmemory, or find what fills it (docs/operations.md)",
                _ => "try later",
            };
            Err(Failure::new(exit::UNAVAILABLE, format!("{error} (the server at {server}); {advice}")))
        }
        _ => Err(Failure::of_the_server(server, error)),
    }
}

/// Whoever wants 0 for it does not want a mail from cron either.
fn busy(wish: &Run, words: &str) -> u8 {
    if wish.busy_code != 0 {
        say(&format!("{}: {words}", shown::name(wish.key.as_bytes())));
    }
    wish.busy_code
}
