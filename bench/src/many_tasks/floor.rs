//! The locks of a turn as their holders see them: until when each is used, how often it goes to another task, and
//! whether it had two holders at some time.

use super::Failure;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::task::yield_now;

pub struct Floor {
    until: Instant,
    is_closed: AtomicBool,
    locks: Vec<Lock>,
    changes: AtomicUsize,
    had_two_holders: AtomicBool,
}

#[derive(Default)]
struct Lock {
    is_held: AtomicBool,
    last_holder: AtomicUsize,
}

impl Floor {
    pub fn of(locks: usize, until: Instant) -> Self {
        let locks = (0..locks).map(|_| Lock::default()).collect();
        let (is_closed, changes, had_two_holders) = Default::default();
        Self { until, is_closed, locks, changes, had_two_holders }
    }

    pub fn locks(&self) -> usize {
        self.locks.len()
    }

    pub fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// Ends the turn before its time is up.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// The task has the lock while other runnable tasks have their turn.
    pub async fn hold(&self, lock: usize, task: usize) {
        let lock = &self.locks[lock];
        if lock.is_held.swap(true, Ordering::AcqRel) {
            self.had_two_holders.store(true, Ordering::Relaxed);
        }
        if lock.last_holder.swap(task, Ordering::Relaxed) != task {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        yield_now().await;
        lock.is_held.store(false, Ordering::Release);
    }

    /// Grants to another task than the one before.
    pub fn changes(&self) -> f64 {
        self.changes.load(Ordering::Relaxed) as f64
    }

    /// A lock with two holders is no lock, however fast.
    pub fn had_one_holder_at_most(&self) -> Result<(), Failure> {
        if self.had_two_holders.load(Ordering::Relaxed) { Err("a lock had two holders".into()) } else { Ok(()) }
    }
}
