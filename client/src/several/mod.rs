//! Several locks as one: all of them, or a majority.

mod multi;
mod redlock;

pub use multi::{Multi, multi};
pub use redlock::{Redlock, redlock};

use crate::lock::Lock;

/// Without those that are the same lock on the same server.
fn distinct<F>(locks: impl IntoIterator<Item = Lock<F>>) -> Vec<Lock<F>> {
    let mut distinct: Vec<Lock<F>> = Vec::new();
    for lock in locks {
        if !distinct.iter().any(|other| other.place() == lock.place()) {
            distinct.push(lock);
        }
    }
    distinct
}
