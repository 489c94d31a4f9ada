//! What a guard knows of its lease: until when it can be vouched for, and whether it is lost. The engine writes it, and
//! whoever has the guard may look at any time, and asks nobody.
//!
//! A lease lasts at least until *the clock before the request was sent* plus its length, for the server has started it
//! later than that. So that is the deadline, less a margin for two clocks that run at different speeds. When it has
//! passed, or the server says that nothing is held, the guard is lost, for good: a renewal that comes through later makes
//! nothing good that was done in between.

use super::request::Leased;
use crate::loss::Loss;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) struct Lease(Mutex<State>);

struct State {
    until: Instant,
    /// Released, or lost before that could be.
    is_over: bool,
    is_released: bool,
    /// Why it is lost, or would be if nothing gets better until then.
    trouble: Option<Loss>,
    /// Who waits to be told that it is lost.
    wakers: Vec<Waker>,
}

impl Lease {
    pub(super) fn new(until: Instant) -> Self {
        let (is_over, is_released, trouble, wakers) = Default::default();
        Self(Mutex::new(State { until, is_over, is_released, trouble, wakers }))
    }

    /// For how long it can still be vouched for.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let state = self.state();
        if state.is_over { Duration::ZERO } else { state.until.saturating_duration_since(now) }
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Loss {
        self.state().trouble.clone().unwrap_or(Loss::Ended)
    }

    /// Ready once it is lost; never once it was released. Otherwise the time at which to look again.
    pub(crate) fn poll_lost(&self, now: Instant, context: &mut Context<'_>) -> Poll<Instant> {
        let mut state = self.state();
        if state.is_released {
            return Poll::Pending;
        }
        if !state.is_over && state.until > now && !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Ready(if state.is_over { now } else { state.until })
    }

    pub(super) fn set_until(&self, until: Instant) {
        let mut state = self.state();
        state.until = until;
        state.trouble = None;
    }

    /// A renewal has failed.
    pub(super) fn is_troubled(&self, trouble: Loss) {
        self.state().trouble = Some(trouble);
    }

    /// Nothing can be vouched for any more. That the server knows nothing of a lease that has ended is no reason of its
    /// own: this program stood still, and may have been told so already.
    pub(super) fn is_lost(&self, loss: Option<Loss>, now: Instant) {
        let wakers = {
            let mut state = self.state();
            // Before the loss is told: whoever is told may ask why.
            if let Some(loss) = loss.filter(|loss| state.until > now || *loss != Loss::NotHeld) {
                state.trouble = Some(loss);
            }
            state.is_over = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends it at its release. Returns until when it is guaranteed, or why it was lost before.
    pub(crate) fn release(&self, now: Instant) -> Result<Instant, Loss> {
        let (wakers, until) = {
            let mut state = self.state();
            let until = match !state.is_over && state.until > now {
                true => Ok(state.until),
                false => Err(state.trouble.clone().unwrap_or(Loss::Ended)),
            };
            (state.is_over, state.is_released) = (true, true);
            (std::mem::take(&mut state.wakers), until)
        };
        // For them it has no end any more.
        wakers.into_iter().for_each(Waker::wake);
        until
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One hundredth of the lease, for clocks that do not run at the same speed, and two milliseconds, for servers and
/// timers that count in milliseconds.
fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

pub(super) fn vouched_until(lease: Leased) -> Instant {
    let Leased { after, length } = lease;
    // A lease so long that it cannot be added is one that the server has refused.
    after.checked_add(length.saturating_sub(margin(length))).unwrap_or(after)
}
