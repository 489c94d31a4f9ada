//! Commands that change something. They are sent once, because without a reply their outcome is unknown.

use super::ask;
use super::unanswered::Unanswered;
use rlock_client::{Locks, Reply};
use std::time::Duration;

/// Frees a lock of any kind, whatever its holders: they find out with their next renewal, and the next waiters get the
/// lock at once. Returns whether there was a lock.
pub async fn break_lock(locks: &Locks, key: &[u8]) -> Result<bool, Unanswered> {
    match locks.command(key, &[b"RLOCK.BREAK".as_slice(), key]).await? {
        Reply::Int(broken) => Ok(broken != 0),
        _ => Err(Unanswered::Nonsense),
    }
}

/// Releases all holds of this holder, whichever process acquired them. Returns whether there were any. For a plain lock
/// no side is given, which means both.
pub async fn release_of(locks: &Locks, key: &[u8], holder: &[u8]) -> Result<bool, Unanswered> {
    match locks.command(key, &[b"RLOCK.RELEASE".as_slice(), key, holder, b"ALL"]).await? {
        Reply::Int(_) => Ok(true),
        Reply::Nil => Ok(false),
        _ => Err(Unanswered::Nonsense),
    }
}

/// Restarts the lease of this holder, whichever process acquired it; to do that twice does no harm. Returns whether it
/// holds the lock.
pub async fn renew_of(locks: &Locks, key: &[u8], holder: &[u8], lease: Duration) -> Result<bool, Unanswered> {
    let lease = lease.as_millis().to_string();
    match ask::of_lock(locks, key, &[b"RLOCK.RENEW".as_slice(), key, holder, lease.as_bytes()]).await? {
        Reply::Int(held) => Ok(held != 0),
        _ => Err(Unanswered::Nonsense),
    }
}
