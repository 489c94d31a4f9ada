//! Alarms: a separate thread wakes the waiting task at a given time. So a limit holds even if the client's own thread
//! is stuck, and callers need no timers of their own, which not every executor has.
//! Setting an alarm costs a system call only if it is earlier than all others. Most limits are about as long as earlier
//! ones, and are cancelled before they end, so the thread checks rarely, and finds little.

use crate::callbacks;
use crate::mutex::lock;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Alarms {
    set: Mutex<Set>,
    has_earlier: Condvar,
}

#[derive(Default)]
struct Set {
    due: BTreeMap<(Instant, u64), Waker>,
    last: u64,
    /// When the thread checks next, if it does.
    next_look: Option<Instant>,
}

/// Resolves at its time, by the clock.
pub(crate) struct Alarm {
    alarms: Arc<Alarms>,
    place: (Instant, u64),
}

impl Alarms {
    pub(crate) fn begin() -> io::Result<Arc<Self>> {
        let alarms = Arc::<Self>::default();
        let rings = alarms.clone();
        thread::Builder::new().name("rlock-alarms".to_owned()).spawn(move || rings.ring())?;
        Ok(alarms)
    }

    pub(crate) fn at(self: &Arc<Self>, time: Instant) -> Alarm {
        let mut set = lock(&self.set);
        set.last += 1;
        Alarm { alarms: self.clone(), place: (time, set.last) }
    }

    /// Calls the waker at that time.
    pub(crate) fn wake_at(&self, time: Instant, waker: Waker) {
        let mut set = lock(&self.set);
        set.last += 1;
        let place = (time, set.last);
        set.insert(self, place, waker);
    }

    fn ring(&self) {
        callbacks::mark_internal_thread();
        let mut set = lock(&self.set);
        loop {
            let now = Instant::now();
            if set.due.first_key_value().is_some_and(|((time, _), _)| *time <= now) {
                let (_, waker) = set.due.pop_first().unzip();
                drop(set);
                let _ = catch_unwind(AssertUnwindSafe(|| waker.map(Waker::wake)));
                set = lock(&self.set);
                continue;
            }
            set.next_look = set.due.first_key_value().map(|((time, _), _)| *time);
            set = match set.next_look {
                Some(time) => self.has_earlier.wait_timeout(set, time - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.has_earlier.wait(set).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Set {
    /// Returns the previous waker.
    fn insert(&mut self, alarms: &Alarms, place: (Instant, u64), waker: Waker) -> Option<Waker> {
        let before = self.due.insert(place, waker);
        if self.next_look.is_none_or(|next| place.0 < next) {
            // So that the thread is woken only once.
            self.next_look = Some(place.0);
            alarms.has_earlier.notify_one();
        }
        before
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (time, _) = self.place;
        if time <= Instant::now() {
            return Poll::Ready(());
        }
        let before = lock(&self.alarms.set).insert(&self.alarms, self.place, context.waker().clone());
        drop(before);
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let waker = lock(&self.alarms.set).due.remove(&self.place);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::runtime::Builder;

    #[test]
    fn an_alarm_goes_off_in_time_although_a_later_one_was_set_before() {
        let alarms = Alarms::begin().unwrap();
        let (late, soon) = (Instant::now() + Duration::from_secs(3_600), Instant::now() + Duration::from_millis(20));
        let mut last = alarms.at(late);
        assert!(Pin::new(&mut last).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let without_timers = Builder::new_current_thread().build().unwrap();
        without_timers.block_on(alarms.at(soon));
        assert!(Instant::now() >= soon);
        without_timers.block_on(alarms.at(soon));
        drop(last);
        assert!(lock(&alarms.set).due.is_empty(), "alarms without waiters are forgotten");
    }
}
