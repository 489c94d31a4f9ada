//! One held lock: acquiring it, detecting its loss, and releasing it when its guard is dropped.

use crate::alarms::Alarm;
use crate::lease::{Lease, Lost};
use crate::logs;
use crate::pending::PendingReply;
use crate::shell::Shared;
use rlock_client_core::{Aim, Answer, Answering, CallerId, Error, ErrorKind, Event, Grant, Lane, Loss, Wish};
use std::borrow::Cow;
use std::future::poll_fn;
use std::iter;
use std::mem;
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

/// Adopts a lock that another process has handed on. If the future is dropped before its result, the lock stays as it is.
pub(crate) async fn adopt(shared: &Arc<Shared>, wish: Wish, token: Option<u64>) -> Result<HeldLock, Error> {
    let about = wish.key.clone();
    let adopted = acquire(shared, wish).await?.and_then(|mut held| held.pop());
    let mut held = adopted.ok_or_else(|| Error::new(ErrorKind::Unavailable, about))?;
    held.grant.token = token;
    Ok(held)
}

/// The result of an attempt.
pub(crate) enum Attempted {
    /// All requested locks, in this order.
    Held(Vec<HeldLock>),
    /// There is an answer already.
    Answered(Vec<u8>),
    /// It was not free before the caller's time was over.
    Busy,
}

pub(crate) async fn acquire(shared: &Arc<Shared>, wish: Wish) -> Result<Option<Vec<HeldLock>>, Error> {
    match attempt(shared, wish).await? {
        Attempted::Held(held) => Ok(Some(held)),
        Attempted::Answered(_) | Attempted::Busy => Ok(None),
    }
}

pub(crate) async fn attempt(shared: &Arc<Shared>, wish: Wish) -> Result<Attempted, Error> {
    shared.thread.check(&wish.key)?;
    let (lane, is_adopted) = (shared.lane(&wish.key), wish.aim == Aim::Adoption);
    let (caller, reply) = shared.asks(|caller| Event::Acquire { caller, wish, lane });
    Acquiring { shared, caller, reply, is_adopted, is_over: false }.await
}

fn held(shared: &Arc<Shared>, mut grant: Grant, leases: Vec<Arc<Lease>>) -> Vec<HeldLock> {
    let more = mem::take(&mut grant.more);
    let each = |(grant, lease)| {
        logs::acquired(&grant);
        HeldLock { shared: shared.clone(), grant, lease, is_released: false }
    };
    iter::once(grant).chain(more).zip(leases).map(each).collect()
}

/// If dropped, it leaves neither a wait nor an unnoticed grant. A lock that is being adopted stays as it was.
struct Acquiring<'a> {
    shared: &'a Arc<Shared>,
    caller: CallerId,
    reply: PendingReply,
    is_adopted: bool,
    is_over: bool,
}

impl Future for Acquiring<'_> {
    type Output = Result<Attempted, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (answer, leases) = ready!(Pin::new(&mut self.reply).poll(context));
        self.is_over = true;
        Poll::Ready(match answer {
            Answer::Acquired(Ok(Some(grant))) => Ok(Attempted::Held(held(self.shared, grant, leases))),
            Answer::Acquired(Err(error)) => Err(error),
            Answer::Answered(value) => Ok(Attempted::Answered(value)),
            Answer::Acquired(Ok(None)) | Answer::Released(_) | Answer::Replied(_) => Ok(Attempted::Busy),
        })
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if self.is_over || !self.shared.thread.is_in_this_process() {
            return;
        }
        // After this step no reply comes any more.
        self.shared.step(Event::Abandon(self.caller));
        if let Some((Answer::Acquired(Ok(Some(grant))), leases)) = self.reply.take_unread() {
            let held = held(self.shared, grant, leases);
            if self.is_adopted {
                held.into_iter().map(Staying::of).for_each(drop);
            }
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

    /// Why it is lost, if it is. A lock that was handed on is not lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        // In this order, as another thread may hand it on right now.
        (self.remaining().is_zero() && !self.is_handed_on()).then(|| self.lease.loss())
    }

    /// Nothing else releases the lease while its guard exists.
    pub(crate) fn is_handed_on(&self) -> bool {
        self.lease.is_released()
    }

    /// A fork of the holder's process does not hold it.
    pub(crate) fn remaining(&self) -> Duration {
        if self.shared.thread.is_in_this_process() { self.lease.remaining(Instant::now()) } else { Duration::ZERO }
    }

    /// The limit for the reply to a request that is sent now.
    pub(crate) fn answer_limit(&self) -> Alarm {
        self.shared.thread.alarms.at(Instant::now() + self.shared.settings.answer)
    }

    /// Resolves when it is lost; never after it was released.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (mut lost, thread) = (Lost::of(self.lease.clone()), self.shared.thread.clone());
        let mut alarm = None;
        poll_fn(move |context| {
            loop {
                if !thread.is_in_this_process() {
                    return Poll::Ready(());
                }
                let now = Instant::now();
                let until = match lost.poll(now, context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(until) if until <= now => return Poll::Ready(()),
                    Poll::Ready(until) => until,
                };
                // A new alarm, because the lease was renewed.
                if alarm.as_ref().is_none_or(|(at, _)| *at != until) {
                    alarm = Some((until, thread.alarms.at(until)));
                }
                if let Some((_, alarm)) = &mut alarm {
                    ready!(Pin::new(alarm).poll(context));
                }
            }
        })
    }

    /// Releases it, and waits for the server's reply. The request is on its way before the future is first polled.
    pub(crate) fn release(&mut self) -> impl Future<Output = Result<(), Error>> + use<> {
        let reply = self.ends(|grant, lane, caller| Event::Release { grant, lane, caller: Some(caller) });
        self.ended(reply)
    }

    /// The same, storing an answer in the same step.
    pub(crate) fn answer(&mut self, answering: Answering) -> impl Future<Output = Result<(), Error>> + use<> {
        let reply = self.ends(|grant, lane, caller| Event::Answer { grant, answering, lane, caller });
        self.ended(reply)
    }

    /// `None`: it is released already, or belongs to another process.
    fn ends(&mut self, event: impl FnOnce(Grant, Lane, CallerId) -> Event<'static>) -> Option<PendingReply> {
        let is_in_this_process = self.shared.thread.is_in_this_process();
        is_in_this_process.then(|| self.goes()).flatten().map(|grant| {
            let lane = self.shared.lane(&grant.key);
            self.shared.asks(|caller| event(grant, lane, caller)).1
        })
    }

    fn ended(&self, reply: Option<PendingReply>) -> impl Future<Output = Result<(), Error>> + use<> {
        let (about, lease) = (self.grant.key.clone(), self.lease.clone());
        async move {
            match reply {
                None => Err(Error::lost(&about, lease.loss())),
                Some(reply) => match reply.await.0 {
                    Answer::Released(released) => released,
                    _ => Err(Error::new(ErrorKind::Unavailable, &about)),
                },
            }
        }
    }

    /// For handing it on. The lock itself stays in the guard.
    pub(crate) fn handing(&self) -> Handing {
        Handing { shared: self.shared.clone(), grant: self.grant.clone(), lease: self.lease.clone() }
    }

    /// `None`: it is released already.
    fn goes(&mut self) -> Option<Grant> {
        if mem::replace(&mut self.is_released, true) { None } else { self.lease.release().then(|| self.grant.clone()) }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if !self.is_released && self.shared.thread.is_in_this_process() {
            if let Some(grant) = self.goes() {
                self.shared.step(Event::Release { grant, lane: Lane::Own, caller: None });
            }
        }
    }
}

/// A lock that is held and may be handed on.
pub(crate) struct Handing {
    shared: Arc<Shared>,
    pub(crate) grant: Grant,
    lease: Arc<Lease>,
}

impl Handing {
    /// Restarts its lease with this length, and waits for the server's reply. If the future is dropped, the wait ends.
    pub(crate) async fn extend(&self, length: Duration) -> Result<(), Error> {
        let about = &self.grant.key;
        if !self.shared.thread.is_in_this_process() || self.lease.is_released() {
            return Err(Error::lost(about, self.lease.loss()));
        }
        let grant = self.grant.clone();
        let (caller, reply) = self.shared.asks(|caller| Event::Extend { grant, length, caller });
        let mut asking = Asking { shared: &self.shared, caller: Some(caller) };
        let answer = reply.await.0;
        asking.caller = None;
        match answer {
            Answer::Released(extended) => extended,
            _ => Err(Error::new(ErrorKind::Unavailable, about)),
        }
    }

    /// Leaves all of them on the server, out of this client's control; or none, if their guard is gone.
    pub(crate) fn detach(all: Vec<Self>) -> Result<(), Error> {
        let (there, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.lease.release());
        for Self { shared, grant, .. } in there {
            let event = match gone.is_empty() {
                true => Event::Detach(grant),
                false => Event::Release { grant, lane: Lane::Own, caller: None },
            };
            shared.step(event);
        }
        gone.first().map_or(Ok(()), |it| Err(Error::lost(&it.grant.key, it.lease.loss())))
    }
}

/// A caller that may be dropped before its reply.
struct Asking<'a> {
    shared: &'a Shared,
    caller: Option<CallerId>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(caller) = self.caller.filter(|_| self.shared.thread.is_in_this_process()) {
            self.shared.step(Event::Abandon(caller));
        }
    }
}

/// An adopted lock, until all of its set are adopted. If dropped before that, it stays on the server.
pub(crate) struct Staying(Option<HeldLock>);

impl Staying {
    pub(crate) fn of(held: HeldLock) -> Self {
        Self(Some(held))
    }

    pub(crate) fn into_held(mut self) -> Option<HeldLock> {
        self.0.take()
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            _ = Handing::detach(vec![held.handing()]);
        }
    }
}
