//! The work under a lock is done: releases the lock.
//!
//! A server that does not reply is asked again for as long as a failover may take. A user in a hurry sends a signal. A
//! signal that also reached CMD, and ended it, must not prevent the release at a healthy server: the server has one
//! second in any case.

use super::reason;
use crate::exit;
use crate::failure::say;
use crate::shown;
use crate::signals::Signals;
use crate::wait::GOODBYE;
use nix::sys::signal::Signal;
use rlock_client::{Error, Guard};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// What was done under the lock.
pub struct Done<'a> {
    pub key: &'a [u8],
    pub lease: Duration,
    /// CMD, if there was one.
    pub cmd: Option<String>,
    /// CMD's exit code.
    pub code: u8,
}

/// Returns our exit code.
pub async fn release(guard: Guard, signals: &mut Signals, done: Done<'_>) -> u8 {
    let key = shown::name(done.key);
    let loss = guard.loss();
    let (loss, why_not) = tokio::select! {
        biased;
        released = guard.release() => match released {
            Ok(()) => return done.code,
            Err(error) if loss.is_none() && error.is_in_doubt() => return in_doubt(&key, &done, &error),
            Err(error) => (loss.or_else(|| error.loss()), error.to_string()),
        },
        () = until_stopped(signals) => (loss, format!("{key}: not released, as no server has answered yet")),
    };
    let Done { cmd, code, .. } = &done;
    match loss {
        Some(loss) => {
            let before = match cmd {
                Some(cmd) => format!("{cmd} had ended (with {code})"),
                None => "it was released".to_owned(),
            };
            say(&format!("{key}: the lock was lost before {before}, others may have had it: {}", reason::of(&loss)));
            exit::LOST
        }
        None => {
            let lease = shown::time(done.lease);
            let cmd = cmd.as_deref().unwrap_or("the work");
            say(&format!("{why_not}; {cmd} had ended before its lease, with which the lock ends, in {lease} at most"));
            *code
        }
    }
}

/// The lock may have been released, or lost long before. What is unknown is not called success.
fn in_doubt(key: &str, Done { cmd, code, .. }: &Done<'_>, error: &Error) -> u8 {
    let what = match cmd {
        Some(cmd) => format!("whether {cmd} had the lock until it ended (with {code})"),
        None => "whether the lock was held until it was released".to_owned(),
    };
    let why = error.reason();
    say(&format!(
        "{key}: it is not known {what}, others may have had it: the connection broke during the release ({why})"
    ));
    exit::LOST
}

pub async fn until_stopped(signals: &mut Signals) {
    let goodbye_is_over = Instant::now() + GOODBYE;
    while !matches!(signals.next().await.signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) {}
    sleep_until(goodbye_is_over).await;
}
