//! What is known of requests that were sent: a request whose answer nobody waited for, or that never came, may have taken
//! the lock all the same, and has to be taken back.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Changed by one task only; atomic because that task may move between threads.
#[derive(Default)]
pub(crate) struct Flight {
    under_way: AtomicBool,
    vanished: AtomicBool,
}

impl Flight {
    pub(crate) fn begin(&self) {
        self.under_way.store(true, Relaxed);
    }

    /// It was answered.
    pub(crate) fn landed(&self) {
        self.under_way.store(false, Relaxed);
    }

    /// It will not be answered any more.
    pub(crate) fn vanished(&self) {
        self.under_way.store(false, Relaxed);
        self.vanished.store(true, Relaxed);
    }

    /// Whether the server may have done something that nobody here was told of.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.under_way.load(Relaxed) || self.vanished.load(Relaxed)
    }
}
