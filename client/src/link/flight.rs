//! What is known of requests that were sent: a request whose answer nobody waited for, or that never came, may have taken
//! the lock all the same, and has to be taken back.
//!
//! A release wants to know more: whether the lock was held is in its first answer, and in no later one. So the answer is
//! waited for on, when the request is given up and made once more.

use super::fault::Fault;
use futures_util::future::BoxFuture;
use redis::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The answer to a request that was given up.
pub(crate) type Late = BoxFuture<'static, Result<Value, Fault>>;

/// Changed by one task only; atomic because that task may move between threads.
#[derive(Default)]
pub(crate) struct Flight {
    under_way: AtomicBool,
    vanished: AtomicBool,
    keeping: bool,
    late: Mutex<Option<Late>>,
}

impl Flight {
    /// Of a request whose answer is of use however late it comes.
    pub(crate) fn keeping() -> Self {
        Self { keeping: true, ..Self::default() }
    }

    pub(super) fn is_keeping(&self) -> bool {
        self.keeping
    }

    /// Waits for an answer no longer than the limit, and keeps it if it may still come.
    pub(super) async fn keep(&self, mut answer: Late, limit: Option<Duration>) -> Result<Value, Fault> {
        let Some(limit) = limit else { return answer.await };
        timeout(limit, &mut answer).await.unwrap_or_else(|_| {
            *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Err(Fault::Silent(Fault::timed_out()))
        })
    }

    /// The answer that may still come.
    pub(crate) fn late(&mut self) -> Option<Late> {
        self.late.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

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
