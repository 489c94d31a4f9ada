//! Guards: what is held, as a value.

use crate::callbacks::{log, woken_safely};
use crate::fencing::{Fenced, Unfenced};
use crate::held_lock::HeldLock;
use futures_util::StreamExt;
use futures_util::future::{Either, OptionFuture, join_all, select};
use futures_util::stream::FuturesUnordered;
use rlock_client_core::{Answering, Error, Fault, Loss, Terms};
use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::iter;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tracing::{Level, warn};

/// What is held: a lock, a permit, or [several locks](crate::Locks::all).
///
/// **Drop** releases it in the background, on a best-effort basis: the program does not learn the result, and if it
/// ends at the same time, the lock stays taken until its lease ends. Prefer [`run`](Self::run) and
/// [`release`](Self::release).
///
/// # What a lease does not promise
/// When the lease ends, the server grants the lock to the next client, whether or not this program knows.
/// [`lost`](Self::lost) reports that in time, if the program runs at all: a stalled program (a paused machine, a
/// blocked thread) does not check. Work that must never happen twice should check the [`token`](Self::token) where it
/// takes effect. [More about this](crate#what-a-lease-does-not-promise).
#[must_use = "dropped at once, it is released at once"]
pub struct Guard<F = Unfenced> {
    /// In the requested order. At least one.
    locks: Vec<HeldLock>,
    fencing: F,
    terms: Terms,
}

impl Guard<Fenced> {
    /// The fencing token of the grant: higher than that of each earlier fenced grant of this lock. For
    /// [several](crate::Locks::all) locks, the first one's.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.fencing.first
    }

    /// The fencing tokens of several locks, in the order in which the locks were given to [`all`](crate::Locks::all).
    pub fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        iter::once(self.fencing.first).chain(self.fencing.more.iter().copied())
    }

    /// Converts it to a plain guard. Read the token before.
    pub fn unfenced(self) -> Guard {
        self.with(Unfenced::NONE)
    }
}

impl<F> Guard<F> {
    pub(crate) fn of(locks: Vec<HeldLock>, fencing: F, terms: Terms) -> Self {
        Self { locks, fencing, terms }
    }

    pub(crate) fn with<G>(self, fencing: G) -> Guard<G> {
        Guard { locks: self.locks, fencing, terms: self.terms }
    }

    pub(crate) fn locks(&self) -> &[HeldLock] {
        &self.locks
    }

    pub(crate) fn fencing(&self) -> &F {
        &self.fencing
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Does the work while the lock is held, and releases the lock. If the lock is lost before the work is done, the
    /// work is dropped where it awaits, and takes no further step.
    ///
    /// If the lease was guaranteed when the work ended, `run` returns the work's result, unless the server says that the
    /// lock is not held or that something else is stored under its name. `run` waits for the reply to the release for at
    /// most [`Options::answer_timeout`](crate::Options::answer_timeout). A release without a reply is logged as a warning
    /// and goes on in the background. To learn more, call [`release`](Self::release) instead of `run`.
    ///
    /// This cannot stop work that does not await: a long computation, or blocking calls. Do such work in another
    /// thread, and check [`is_lost`](Self::is_lost) between its steps.
    ///
    /// ```no_run
    /// # async fn ship() {}
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// locks.lock("orders:42").acquire().await?.run(ship()).await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// If dropped, the work is dropped, and the lock is released in the background.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) with its [reason](Error::loss), if the work was stopped, or was not protected
    /// to its end: the server says that the lock is not held, or the lease was no longer guaranteed and the server does
    /// not reply.
    pub async fn run<T>(mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        let done = self.until_lost(work).await?;
        if !self.locks.iter().all(HeldLock::is_handed_on) {
            self.ends(None).await?;
        }
        Ok(done)
    }

    /// Does the work while the lock is held.
    pub(crate) async fn until_lost<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let (mut work, mut lost) = (pin!(work), pin!(self.lost()));
        // The clock decides, even if this program's timers are late.
        let done = poll_fn(|context| match lost.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending if self.loss().is_some() => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        });
        done.await.ok_or_else(|| Error::lost(self.names(), self.loss().unwrap_or(Loss::Ended)))
    }

    /// Releases the lock after the work, and stores the answer in the same step, if there is one. Returns whether the
    /// server confirmed that. Without a reply, the work was still protected.
    pub(crate) async fn ends(&mut self, answering: Option<Answering>) -> Result<bool, Error> {
        let loss = self.is_lost().then(|| self.loss().unwrap_or(Loss::Ended));
        let names = self.names();
        let is_release = answering.is_none();
        let limit = OptionFuture::from(self.locks.first().map(HeldLock::answer_limit));
        let ended = match answering {
            Some(answering) => Either::Left(OptionFuture::from(self.locks.first_mut().map(|it| it.answer(answering)))),
            None => Either::Right(self.release_all()),
        };
        let ended = async move {
            match ended {
                Either::Left(answered) => answered.await.unwrap_or(Ok(())),
                Either::Right(released) => released.await,
            }
        };
        let error = match woken_safely(select(pin!(ended), pin!(limit))).await {
            Either::Left((Ok(()), _)) => return Ok(true),
            Either::Left((Err(error), _)) => error,
            Either::Right(_) => Error::in_doubt(&names, Fault::timed_out().cause),
        };
        match (loss, error.loss()) {
            (Some(loss), _) => Err(Error::lost(names, loss)),
            (None, Some(Loss::NotHeld | Loss::Overwritten(_))) => Err(error),
            (None, _) if !is_release && !error.is_lost() && !error.is_unavailable() => Err(error),
            (None, _) => {
                log(Level::WARN, || move || warn!(lock = %names, %error, "released, but without a reply"));
                Ok(false)
            }
        }
    }

    /// The holder, the server's name for this guard: `host:process:uuid:number`; or with the client's
    /// [name](crate::Options::name) instead of host and process; or the [`owner`](crate::Lock::owner).
    #[must_use]
    pub fn holder(&self) -> Cow<'_, str> {
        self.locks.first().map(HeldLock::holder).unwrap_or_default()
    }

    /// How long the lock is still guaranteed without another renewal. Zero if it is lost. Sends no request.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.locks.iter().map(HeldLock::remaining).min().unwrap_or_default()
    }

    /// Whether it is no longer guaranteed. Once lost, always lost. Sends no request, so work that does not await can
    /// check as often as it likes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Resolves when the lease is no longer guaranteed, for one of two reasons. The lease may have ended, counted from
    /// before the request that started it: this is before the server can grant the lock to another client. Or the
    /// server replied to a renewal that the lock is not held, because it was taken away. Never resolves after the guard
    /// was released.
    ///
    /// # Cancel safety
    /// Cancel safe. The future borrows nothing, so the guard can be released while it exists, and there can be any
    /// number of them.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<F> {
        let mut losses: FuturesUnordered<_> = self.locks.iter().map(HeldLock::lost).collect();
        woken_safely(async move { _ = losses.next().await })
    }

    /// Why it is lost; `None` if it is not, or was [detached](Self::detach). Sends no request: it is the result of the last
    /// renewal.
    ///
    /// If another guard of the same [`owner`](crate::Lock::owner) followed this one, the reason is no longer known, and
    /// this is [`Loss::Ended`]. For [several](crate::Locks::all) locks it is the reason of a lost one.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.locks.iter().find_map(HeldLock::loss)
    }

    /// Releases the lock, and waits for the server's reply.
    ///
    /// # Cancel safety
    /// If dropped, the release goes on in the background. It begins when this is first polled; a call that is never
    /// awaited drops the guard, which also releases it.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) with its [reason](Error::loss) if the lock was no longer held at the call:
    /// another client may have had it. [`Lost`](crate::ErrorKind::Lost) without a reason if the release is [in
    /// doubt](Error::is_in_doubt), because the connection broke before the reply.
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server does not reply within
    /// [`Options::patience`](crate::Options::patience), or only after the end of a lease that was guaranteed at the
    /// call: that is no loss. The client keeps asking in the background until the lease must have ended.
    pub async fn release(mut self) -> Result<(), Error> {
        self.release_all().await
    }

    async fn release_all(&mut self) -> Result<(), Error> {
        // `FuturesUnordered` would wake its task for nothing, and with it another thread.
        let released = woken_safely(join_all(self.locks.iter_mut().map(HeldLock::release))).await;
        // A loss says more than a doubt, and a doubt more than a server that does not reply.
        let rank = |error: &Error| (error.loss().is_some(), error.is_lost());
        released.into_iter().filter_map(Result::err).max_by_key(rank).map_or(Ok(()), Err)
    }

    pub(crate) fn names(&self) -> String {
        self.locks.iter().map(HeldLock::name).collect::<Vec<_>>().join(", ")
    }
}

impl<F> fmt::Debug for Guard<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.locks.iter().map(HeldLock::name).collect();
        f.debug_struct("Guard").field("locks", &names).field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}
