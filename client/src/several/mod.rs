//! Several locks as one: all of them, or a majority.

mod multi;
mod redlock;

pub use multi::{Multi, multi};
pub use redlock::{Redlock, redlock};

use crate::lock::Lock;
use std::time::Duration;

/// How long to try, for each lock, if the caller sets no limit.
const TIME_PER_LOCK: Duration = Duration::from_millis(1_500);

/// Without those that are the same lock on the same server.
fn distinct(locks: impl IntoIterator<Item = Lock>) -> Vec<Lock> {
    let mut distinct: Vec<Lock> = Vec::new();
    for lock in locks {
        if !distinct.iter().any(|other| other.place() == lock.place()) {
            distinct.push(lock);
        }
    }
    distinct
}
