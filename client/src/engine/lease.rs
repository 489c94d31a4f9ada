//! What a guard knows of its lease: until when it can be vouched for, and whether it is lost. The engine writes it, and
//! whoever has the guard may look at any time, and asks nobody.
//!
//! A lease lasts at least until *the clock before the request was sent* plus its length, for the server has started it
//! later than that. So that is the deadline, less a margin for two clocks that run at different speeds. When it has
//! passed, or the server says that nothing is held, the guard is lost, for good: a renewal that comes through later makes
//! nothing good that was done in between.

use super::request::Leased;
use crate::loss::Loss;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// By its number, each future that waits for the loss.
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Lease {
    pub(super) fn new(until: Instant) -> Self {
        let (is_over, is_released, trouble, waiting, last) = Default::default();
        Self(Mutex::new(State { until, is_over, is_released, trouble, waiting, last }))
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
            std::mem::take(&mut state.waiting)
        };
        wakers.into_values().for_each(Waker::wake);
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
            (std::mem::take(&mut state.waiting), until)
        };
        // For them it has no end any more.
        wakers.into_values().for_each(Waker::wake);
        until
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a lease is lost. Dropped, it leaves nothing behind: a program may begin one in each turn of a loop.
pub(crate) struct Lost {
    lease: Arc<Lease>,
    number: Option<u64>,
}

impl Lost {
    pub(crate) fn of(lease: Arc<Lease>) -> Self {
        Self { lease, number: None }
    }

    /// Ready once the lease is lost; never once it was released. Otherwise the time at which to check again.
    pub(crate) fn poll(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<Instant> {
        let mut state = self.lease.state();
        if state.is_released {
            return Poll::Pending;
        }
        if state.is_over || state.until <= now {
            return Poll::Ready(if state.is_over { now } else { state.until });
        }
        let (until, number) = (state.until, self.number.unwrap_or(state.last + 1));
        state.last = state.last.max(number);
        let before = state.waiting.insert(number, context.waker().clone());
        self.number = Some(number);
        drop(state);
        // Not under the lock: with a task's last waker a guard may go.
        drop(before);
        Poll::Ready(until)
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        let waker = self.number.and_then(|number| self.lease.state().waiting.remove(&number));
        drop(waker);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As `select!` in a loop does.
    #[test]
    fn a_future_that_is_dropped_leaves_no_waker_behind() {
        let now = Instant::now();
        let lease = Arc::new(Lease::new(now + Duration::from_secs(30)));
        let mut context = Context::from_waker(Waker::noop());
        let mut kept = Lost::of(lease.clone());
        for _ in 0..20_000 {
            let _ = (kept.poll(now, &mut context), Lost::of(lease.clone()).poll(now, &mut context));
            assert_eq!(lease.state().waiting.len(), 1);
        }
        drop(kept);
        assert!(lease.state().waiting.is_empty());
    }
}
