//! One lock that is held: taking it, knowing whether it is lost, and giving it back when its guard goes.

use crate::alarms::Alarm;
use crate::engine::{Event, Grant, Lane, Lost, Outcome, Wish};
use crate::error::{Error, ErrorKind};
use crate::loss::Loss;
use crate::shell::Shared;
use std::borrow::Cow;
use std::future::poll_fn;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) struct HeldLock {
    shared: Arc<Shared>,
    grant: Grant,
    is_released: bool,
}

/// All that was wanted, in this order. `None`: it was not free, for as long as the caller was willing to wait.
pub(crate) async fn acquire(shared: &Arc<Shared>, wish: Wish) -> Result<Option<Vec<HeldLock>>, Error> {
    shared.thread.check(&wish.key)?;
    let (id, about, lane) = (shared.number(), wish.key.clone(), shared.lane(&wish.key));
    let (tell, told) = oneshot::channel();
    shared.step(Event::Acquire { id, wish, lane, tell });
    let outcome = Acquiring { shared, id, told }.await;
    let outcome = outcome.unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable, &about)));
    Ok(outcome?.map(|grant| held(shared, grant)))
}

fn held(shared: &Arc<Shared>, mut grant: Grant) -> Vec<HeldLock> {
    let more = std::mem::take(&mut grant.more);
    let each = |grant| HeldLock { shared: shared.clone(), grant, is_released: false };
    iter::once(grant).chain(more).map(each).collect()
}

/// Dropped, nothing stays behind: neither a wait, nor what was granted and not heard.
struct Acquiring<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    told: oneshot::Receiver<Outcome>,
}

impl Future for Acquiring<'_> {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.told).poll(context).map(Result::ok)
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if self.told.is_terminated() || !self.shared.thread.is_here() {
            return;
        }
        self.told.close();
        match self.told.try_recv() {
            Ok(Ok(Some(grant))) => drop(held(self.shared, grant)),
            Ok(_) => {}
            Err(_) => self.shared.step(Event::Abandon(self.id)),
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
        self.grant.lease.loss()
    }

    /// A process that was forked from its holder has not got it.
    pub(crate) fn remaining(&self) -> Duration {
        if self.shared.thread.is_here() { self.grant.lease.remaining(Instant::now()) } else { Duration::ZERO }
    }

    /// When an answer should have come to what is sent now.
    pub(crate) fn answer_limit(&self) -> Alarm {
        self.shared.thread.alarms.at(Instant::now() + self.shared.settings.answer)
    }

    /// Resolves when it is lost; never once it was released.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (mut lost, thread) = (Lost::of(self.grant.lease.clone()), self.shared.thread.clone());
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
        let (about, lease) = (self.grant.key.clone(), self.grant.lease.clone());
        let told = (!self.is_released && self.shared.thread.is_here()).then(|| {
            let (tell, told) = oneshot::channel();
            self.give_back(self.shared.lane(&self.grant.key), Some(tell));
            told
        });
        async move {
            match told {
                // A forked process holds nothing.
                None => Err(Error::lost(&about, lease.loss())),
                Some(told) => told.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, &about))),
            }
        }
    }

    fn give_back(&mut self, lane: Lane, tell: Option<oneshot::Sender<Result<(), Error>>>) {
        self.is_released = true;
        self.shared.step(Event::Release { grant: self.grant.clone(), lane, tell });
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if !self.is_released && self.shared.thread.is_here() {
            self.give_back(Lane::Own, None);
        }
    }
}
