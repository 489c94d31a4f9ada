//! The way of an answer to its caller: put there while the engine's lock is held, so that either the answer or the word that
//! the caller has gone comes first. The caller is woken behind the lock.

use crate::lease::Lease;
use rlock_client_core::{Error, Fault, Grant, Reply};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What callers wait for.
pub(crate) enum Told {
    Acquired(Result<Option<Granted>, Error>),
    Released(Result<(), Error>),
    Replied(Result<Reply, Fault>),
}

/// A grant, and what is known of its lease and of those that were granted with it.
pub(crate) struct Granted {
    pub grant: Grant,
    pub lease: Arc<Lease>,
    pub more: Vec<Arc<Lease>>,
}

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
        let mut state = self.state();
        state.told = Some(told);
        state.waker.take()
    }

    /// What was told and not heard.
    pub(crate) fn unheard(&self) -> Option<Told> {
        self.state().told.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Telling {
    type Output = Told;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        let mut state = self.state();
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
