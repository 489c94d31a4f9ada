//! Delivers a reply to its caller. The reply is stored while the engine is locked, so either the reply or the news that
//! the caller is gone comes first. The caller is woken after the lock is released.

use crate::lease::Lease;
use crate::mutex::lock;
use rlock_client_core::Answer;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The engine's reply, and the state of each granted lease, so that the caller need not lock the engine.
pub(crate) type Delivered = (Answer, Vec<Arc<Lease>>);

#[derive(Default)]
struct State {
    delivered: Option<Delivered>,
    waker: Option<Waker>,
}

/// Resolves with the reply.
#[derive(Clone, Default)]
pub(crate) struct PendingReply(Arc<Mutex<State>>);

impl PendingReply {
    /// Returns what to wake.
    #[must_use]
    pub(crate) fn deliver(&self, delivered: Delivered) -> Option<Waker> {
        let mut state = lock(&self.0);
        state.delivered = Some(delivered);
        state.waker.take()
    }

    /// A reply that was delivered but not read.
    pub(crate) fn take_unread(&self) -> Option<Delivered> {
        lock(&self.0).delivered.take()
    }
}

impl Future for PendingReply {
    type Output = Delivered;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Delivered> {
        let mut state = lock(&self.0);
        if let Some(delivered) = state.delivered.take() {
            return Poll::Ready(delivered);
        }
        let before = match &mut state.waker {
            Some(known) if known.will_wake(context.waker()) => None,
            known => known.replace(context.waker().clone()),
        };
        // Outside the mutex: dropping a task's last waker may drop a guard.
        drop(state);
        drop(before);
        Poll::Pending
    }
}
