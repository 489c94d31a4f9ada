//! The lock was not acquired: the message, and the exit code.

use super::{GOODBYE, divided, limit};
use crate::address::Address;
use crate::arguments::Wish;
use crate::failure::{Failure, say};
use crate::operators::inspect;
use crate::shown;
use rlock_client::{Error, Locks};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::timeout;

/// It was not free in time, or a grace goes on for longer.
pub async fn in_time(wish: &Wish, so: &str, locks: &Locks) -> u8 {
    if let Ok(Some(left)) = timeout(GOODBYE, grace_left(wish, locks)).await {
        return busy(wish, &format!("{}{so}", shown::grace(left)));
    }
    let waited = match limit(wish) {
        Some(limit) if !limit.is_zero() => format!(" within {}", shown::time(limit)),
        _ => String::new(),
    };
    busy(wish, &format!("not free{waited}{so}; rlock inspect shows the holder"))
}

/// `None` also if this user may not ask.
async fn grace_left(wish: &Wish, locks: &Locks) -> Option<Duration> {
    let key = divided(&wish.key, wish.all).first().copied()?;
    inspect(locks, key, 1).await.ok()?.grace_left
}

/// The request to the server at that address failed.
pub fn for_a_reason(wish: &Wish, so: &str, at: &Address, error: &Error) -> Result<u8, Failure> {
    match error.code() {
        // An operator has ended this wait on purpose: that is no failure of the server.
        Some("UNBLOCKED") => Ok(busy(wish, &format!("an operator has ended the wait (CLIENT UNBLOCK){so}"))),
        Some("QUEUEFULL") if error.text().is_some_and(|text| text.contains("MAX")) => {
            Ok(busy(wish, &format!("as many wait for it as --max-waiters allows, or more{so}")))
        }
        _ => Err(Failure::of_the_server(at, error)),
    }
}

/// A user that requested exit code 0, or no output, does not want a mail from cron.
fn busy(wish: &Wish, words: &str) -> u8 {
    if wish.waiting.busy_code != 0 && !wish.waiting.quiet {
        say(&format!("{}: {words}", shown::name(wish.key.as_bytes())));
    }
    wish.waiting.busy_code
}
