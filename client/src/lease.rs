//! What a guard knows about its lease: until when it is guaranteed, and whether it is lost. The engine reports it, and
//! the guard can check at any time without a request.

use crate::mutex::lock;
use rlock_client_core::{Loss, Standing};
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) struct Lease(Mutex<State>);

struct State {
    until: Instant,
    /// Released, or lost before its release.
    is_over: bool,
    is_released: bool,
    /// Why it is lost, or will be unless a renewal succeeds.
    trouble: Option<Loss>,
    /// The futures that wait for the loss, by number.
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Lease {
    pub(crate) fn new(until: Instant) -> Self {
        let (is_over, is_released, trouble, waiting, last) = Default::default();
        Self(Mutex::new(State { until, is_over, is_released, trouble, waiting, last }))
    }

    /// How long it is still guaranteed.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        let state = lock(&self.0);
        if state.is_over { Duration::ZERO } else { state.until.saturating_duration_since(now) }
    }

    pub(crate) fn is_released(&self) -> bool {
        lock(&self.0).is_released
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Loss {
        lock(&self.0).trouble.clone().unwrap_or(Loss::Ended)
    }

    /// Applies the engine's report. Returns what to wake.
    pub(crate) fn stands(&self, standing: Standing) -> impl Iterator<Item = Waker> + use<> {
        let mut state = lock(&self.0);
        let mut woken = BTreeMap::new();
        match standing {
            Standing::Until(until) => {
                if until < state.until {
                    // The waiting futures have to be woken earlier.
                    woken = mem::take(&mut state.waiting);
                }
                (state.until, state.trouble) = (until, None);
            }
            Standing::Troubled(why) => state.trouble = Some(why),
            Standing::Lost(why) => {
                (state.trouble, state.is_over) = (Some(why), true);
                woken = mem::take(&mut state.waiting);
            }
        }
        woken.into_values()
    }

    /// Its guard is dropped, or its lock is handed on: futures that wait for the loss never resolve. Returns whether
    /// this is the first call.
    pub(crate) fn release(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_over = true;
        let was_released = mem::replace(&mut state.is_released, true);
        let woken = mem::take(&mut state.waiting);
        drop(state);
        woken.into_values().for_each(Waker::wake);
        !was_released
    }
}

/// Waits until a lease is lost. It cleans up when it is dropped: a program may create one in each turn of a loop.
pub(crate) struct Lost {
    lease: Arc<Lease>,
    number: Option<u64>,
}

impl Lost {
    pub(crate) fn of(lease: Arc<Lease>) -> Self {
        Self { lease, number: None }
    }

    /// Ready once the lease is lost; never after it was released. Otherwise the time of the next check.
    pub(crate) fn poll(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<Instant> {
        let mut state = lock(&self.lease.0);
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
        // Outside the mutex: dropping a task's last waker may drop a guard.
        drop(before);
        Poll::Ready(until)
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        let waker = self.number.and_then(|number| lock(&self.lease.0).waiting.remove(&number));
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like `select!` in a loop.
    #[test]
    fn a_future_that_is_dropped_leaves_no_waker_behind() {
        let now = Instant::now();
        let lease = Arc::new(Lease::new(now + Duration::from_secs(30)));
        let mut context = Context::from_waker(Waker::noop());
        let mut kept = Lost::of(lease.clone());
        for _ in 0..20_000 {
            let _ = (kept.poll(now, &mut context), Lost::of(lease.clone()).poll(now, &mut context));
            assert_eq!(lock(&lease.0).waiting.len(), 1);
        }
        drop(kept);
        assert!(lock(&lease.0).waiting.is_empty());
    }
}
