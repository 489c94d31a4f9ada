//! The way of an answer to its caller: put there while the engine's lock is held, so that either the answer or the word that
//! the caller has gone comes first. The caller is woken behind the lock.

use crate::lease::Lease;
use crate::mutex::lock;
use rlock_client_core::Answer;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The engine's answer, and what is known of each lease that it has granted: so its caller need not lock the engine.
pub(crate) type Told = (Answer, Vec<Arc<Lease>>);

#[derive(Default)]
struct State {
    told: Option<Told>,
    waker: Option<Waker>,
}

/// Resolves with the answer.
#[derive(Clone, Default)]
pub(crate) struct Telling(Arc<Mutex<State>>);

impl Telling {
    /// Returns what to wake.
    #[must_use]
    pub(crate) fn tell(&self, told: Told) -> Option<Waker> {
        let mut state = lock(&self.0);
        state.told = Some(told);
        state.waker.take()
    }

    /// What was told and not heard.
    pub(crate) fn unheard(&self) -> Option<Told> {
        lock(&self.0).told.take()
    }
}

impl Future for Telling {
    type Output = Told;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        let mut state = lock(&self.0);
        if let Some(told) = state.told.take() {
            return Poll::Ready(told);
        }
        let before = match &mut state.waker {
            Some(known) if known.will_wake(context.waker()) => None,
            known => known.replace(context.waker().clone()),
        };
        // Not under the lock: with a task's last waker a guard may go.
        drop(state);
        drop(before);
        Poll::Pending
    }
}
