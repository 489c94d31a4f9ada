//! One lock that is held: taking it, knowing whether it is lost, and giving it back when its guard goes.

use crate::alarms::Alarm;
use crate::lease::{Lease, Lost};
use crate::logs;
use crate::shell::Shared;
use crate::told::Telling;
use rlock_client_core::{Answer, CallerId, Error, ErrorKind, Event, Grant, Lane, Loss, Wish};
use std::borrow::Cow;
use std::future::poll_fn;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

pub(crate) struct HeldLock {
    shared: Arc<Shared>,
    grant: Grant,
    lease: Arc<Lease>,
    is_released: bool,
}

/// All that was wanted, in this order. `None`: it was not free, for as long as the caller was willing to wait.
pub(crate) async fn acquire(shared: &Arc<Shared>, wish: Wish) -> Result<Option<Vec<HeldLock>>, Error> {
    shared.thread.check(&wish.key)?;
    let lane = shared.lane(&wish.key);
    let (caller, telling) = shared.asks(|caller| Event::Acquire { caller, wish, lane });
    Acquiring { shared, caller, telling, is_over: false }.await
}

fn held(shared: &Arc<Shared>, mut grant: Grant, leases: Vec<Arc<Lease>>) -> Vec<HeldLock> {
    let more = std::mem::take(&mut grant.more);
    let each = |(grant, lease)| {
        logs::acquired(&grant);
        HeldLock { shared: shared.clone(), grant, lease, is_released: false }
    };
    iter::once(grant).chain(more).zip(leases).map(each).collect()
}

/// Dropped, nothing stays behind: neither a wait, nor what was granted and not heard.
struct Acquiring<'a> {
    shared: &'a Arc<Shared>,
    caller: CallerId,
    telling: Telling,
    is_over: bool,
}

impl Future for Acquiring<'_> {
    type Output = Result<Option<Vec<HeldLock>>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, leases) = ready!(Pin::new(&mut self.telling).poll(context));
        self.is_over = true;
        Poll::Ready(match answer {
            Answer::Acquired(outcome) => outcome.map(|grant| grant.map(|grant| held(self.shared, grant, leases))),
            Answer::Released(_) | Answer::Replied(_) => Ok(None),
        })
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if self.is_over || !self.shared.thread.is_here() {
            return;
        }
        // Behind this step no answer comes any more.
        self.shared.step(Event::Abandon(self.caller));
        if let Some((Answer::Acquired(Ok(Some(grant))), leases)) = self.telling.unheard() {
            drop(held(self.shared, grant, leases));
        }
    }
}

impl HeldLock {
    pub(crate) fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.grant.key)
    }

    pub(crate) fn holder(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.grant.holder)
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.grant.token
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Loss {
        self.lease.loss()
    }

    /// A process that was forked from its holder has not got it.
    pub(crate) fn remaining(&self) -> Duration {
        if self.shared.thread.is_here() { self.lease.remaining(Instant::now()) } else { Duration::ZERO }
    }

    /// When an answer should have come to what is sent now.
    pub(crate) fn answer_limit(&self) -> Alarm {
        self.shared.thread.alarms.at(Instant::now() + self.shared.settings.answer)
    }

    /// Resolves when it is lost; never once it was released.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (mut lost, thread) = (Lost::of(self.lease.clone()), self.shared.thread.clone());
        let mut alarm = None;
        poll_fn(move |context| {
            loop {
                if !thread.is_here() {
                    return Poll::Ready(());
                }
                let now = Instant::now();
                let until = match lost.poll(now, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(until) if until <= now => return Poll::Ready(()),
                    Poll::Ready(until) => until,
                };
                // Another one, since it was renewed.
                if alarm.as_ref().is_none_or(|(at, _)| *at != until) {
                    alarm = Some((until, thread.alarms.at(until)));
                }
                if let Some((_, alarm)) = &mut alarm {
                    ready!(Pin::new(alarm).poll(context));
                }
            }
        })
    }

    /// Gives it back, and waits for the server's word. What is sent is on its way before this is awaited.
    pub(crate) fn release(&mut self) -> impl Future<Output = Result<(), Error>> + use<> {
        let (about, lease) = (self.grant.key.clone(), self.lease.clone());
        let telling = (!self.is_released && self.shared.thread.is_here()).then(|| {
            let (grant, lane) = (self.goes(), self.shared.lane(&self.grant.key));
            self.shared.asks(|caller| Event::Release { grant, lane, caller: Some(caller) }).1
        });
        async move {
            match telling {
                // A forked process holds nothing.
                None => Err(Error::lost(&about, lease.loss())),
                Some(telling) => match telling.await.0 {
                    Answer::Released(released) => released,
                    Answer::Acquired(_) | Answer::Replied(_) => Err(Error::new(ErrorKind::Unavailable, &about)),
                },
            }
        }
    }

    fn goes(&mut self) -> Grant {
        self.is_released = true;
        self.lease.release();
        self.grant.clone()
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if !self.is_released && self.shared.thread.is_here() {
            let grant = self.goes();
            self.shared.step(Event::Release { grant, lane: Lane::Own, caller: None });
        }
    }
}
