//! What is known of the requests that one caller sent: a request whose answer never came, or whose caller no longer
//! waits for it, may have taken the lock all the same, and then has to be taken back.
//!
//! A release wants to know more: whether the lock was held is in its first answer, and in no later one. So it keeps the
//! answer of a request that it gives up, waits for it on, and makes the request once more.

use super::fault::Fault;
use futures_util::future::BoxFuture;
use redis::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The answer to a request that was given up.
pub(crate) type LateAnswer = BoxFuture<'static, Result<Value, Fault>>;

/// Changed by one task only; atomic because that task may move between threads.
#[derive(Default)]
pub(crate) struct Doubt {
    under_way: AtomicBool,
    unanswered: AtomicBool,
    keeps_answers: bool,
    late: Mutex<Option<LateAnswer>>,
}

impl Doubt {
    /// For a request whose answer is of use however late it comes.
    pub(crate) fn keeping_answers() -> Self {
        Self { keeps_answers: true, ..Self::default() }
    }

    pub(super) fn keeps_answers(&self) -> bool {
        self.keeps_answers
    }

    /// Waits for an answer no longer than the limit, and keeps it if it may still come.
    pub(super) async fn keep(&self, mut answer: LateAnswer, limit: Duration) -> Result<Value, Fault> {
        timeout(limit, &mut answer).await.unwrap_or_else(|_| {
            *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Err(Fault::Silent(Fault::timed_out()))
        })
    }

    /// The answer that may still come.
    pub(crate) fn late_answer(&mut self) -> Option<LateAnswer> {
        self.late.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A request is being sent.
    pub(super) fn begin(&self) {
        self.under_way.store(true, Relaxed);
    }

    /// The server has answered.
    pub(super) fn answered(&self) {
        self.under_way.store(false, Relaxed);
    }

    /// The server will not answer any more.
    pub(crate) fn unanswered(&self) {
        self.under_way.store(false, Relaxed);
        self.unanswered.store(true, Relaxed);
    }

    /// Whether an answer may still come.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Relaxed)
    }

    /// Whether a request may still arrive whose answer will not.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.load(Relaxed)
    }

    /// Whether the server may have done something that nobody here was told of.
    pub(crate) fn remains(&self) -> bool {
        self.is_under_way() || self.is_unanswered()
    }
}
