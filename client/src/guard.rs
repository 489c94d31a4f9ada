//! What is held, for as long as it is.

use crate::fencing::{Fenced, Unfenced};
use crate::foreign::{heard, log};
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
/// **Dropped**, it is released in the background, as best that can be done: nobody learns whether it was, and where the
/// program ends at the same time, the lock stays taken until its lease ends. Prefer [`run`](Self::run) and
/// [`release`](Self::release).
///
/// # What a lease does not promise
/// The server gives the lock to somebody else when the lease has ended, whether or not this program knows. It is told
/// in time by [`lost`](Self::lost), if it runs at all: a program that stands still (a paused machine, a blocked thread)
/// does not look. What must never happen twice should check the [`token`](Self::token) where it is done. [More of
/// it](crate#what-a-lease-does-not-promise).
#[must_use = "dropped at once, it is released at once"]
pub struct Guard<F = Unfenced> {
    /// In the order in which they were wanted. At least one.
    locks: Vec<HeldLock>,
    fencing: F,
    terms: Terms,
}

impl Guard<Fenced> {
    /// The fencing token of the grant: larger than that of each fenced grant of this lock before. Of
    /// [several](crate::Locks::all) locks, the first one's.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.fencing.first
    }

    /// The fencing tokens of several locks, in the order in which the locks were given to [`all`](crate::Locks::all).
    pub fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        iter::once(self.fencing.first).chain(self.fencing.more.iter().copied())
    }

    /// The same as a guard like any other. Ask for the token before.
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

    /// Does the work while the lock is held, and releases it. When the lock is lost before the work is done, the work
    /// is dropped where it awaits, and takes no further step.
    ///
    /// If the lease was guaranteed when the work ended, `run` returns the work's result, unless the server says that the
    /// lock is not held or that something else is stored under its name. `run` waits for the reply to the release for at
    /// most [`Options::answer_timeout`](crate::Options::answer_timeout). A release without a reply is logged as a warning
    /// and goes on in the background. To learn more, call [`release`](Self::release) instead of `run`.
    ///
    /// Work that does not await cannot be stopped like this: a long computation, or calls that block. Do such work
    /// elsewhere, and [look](Self::is_lost) between its steps.
    ///
    /// ```no_run
    /// # async fn ship() {}
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// locks.lock("orders:42").acquire().await?.run(ship()).await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropped, the work is dropped, and the lock released in the background.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) with its [reason](Error::loss), if the work was stopped, or was not protected to its end: the
    /// server says that the lock is not held, or the lease was not guaranteed any more and the server does not reply.
    pub async fn run<T>(mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        let done = self.until_lost(work).await?;
        self.ends(None).await?;
        Ok(done)
    }

    /// Does the work while the lock is held.
    pub(crate) async fn until_lost<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let (mut work, mut lost) = (pin!(work), pin!(self.lost()));
        // What has passed by the clock has passed, whatever this program's timers have come to.
        let done = poll_fn(|context| match lost.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending if self.is_lost() => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        });
        done.await.ok_or_else(|| Error::lost(self.names(), self.loss().unwrap_or(Loss::Ended)))
    }

    /// Releases it behind work that is done, and stores an answer with that, if there is one. Returns whether the server has
    /// said that this is done; if it has said nothing, the work was protected all the same.
    pub(crate) async fn ends(&mut self, answering: Option<Answering>) -> Result<bool, Error> {
        let (names, loss) = (self.names(), self.loss());
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
        let error = match heard(select(pin!(ended), pin!(limit))).await {
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

    /// The holder by which the server knows it: `host:process:uuid:number`, or with the client's
    /// [name](crate::Options::name) in place of the first two, or the [`owner`](crate::Lock::owner).
    #[must_use]
    pub fn holder(&self) -> Cow<'_, str> {
        self.locks.first().map(HeldLock::holder).unwrap_or_default()
    }

    /// For how long it can still be vouched for, if nothing is renewed. Zero if it is lost. It asks no server.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.locks.iter().map(HeldLock::remaining).min().unwrap_or_default()
    }

    /// Whether it can no longer be vouched for. Once lost, always lost. It asks no server, so work that does not await
    /// can look as often as it likes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Resolves when the lease can no longer be vouched for. Either it could have ended, counted from before the
    /// request was sent that began it: that is before the server can give the lock to somebody else. Or the server
    /// said, when it was asked to renew the lease, that the lock is not held: somebody had taken it away. Never
    /// resolves once the guard was released.
    ///
    /// # Cancel safety
    /// Cancel safe. It borrows nothing, so the guard can be released while it is there, and it can be asked for any
    /// number of times.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<F> {
        let mut losses: FuturesUnordered<_> = self.locks.iter().map(HeldLock::lost).collect();
        heard(async move { _ = losses.next().await })
    }

    /// Why it is lost; nothing as long as it is not. It asks no server: it is what the last renewal came to.
    ///
    /// Of a guard that was followed by another one of the same [`owner`](crate::Lock::owner) it is no longer known;
    /// then it is [`Loss::Ended`]. Of [several](crate::Locks::all) locks it is one's that is lost.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.locks.iter().find(|lock| lock.is_lost()).map(HeldLock::loss)
    }

    /// Releases the lock, and waits for the server's word that it is.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on in the background. It begins when this is first polled; a call that is never
    /// awaited drops the guard, which releases it as well.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) with its [reason](Error::loss) if the lock was not held any more when this was called: another
    /// client may have had it. [`Lost`](crate::ErrorKind::Lost) without a reason if the release is [in doubt](Error::is_in_doubt), as
    /// the connection broke before the reply. [`Unavailable`](crate::ErrorKind::Unavailable) if the server does not answer for as long as
    /// [`Options::patience`](crate::Options::patience) says, or not before the lease had ended, which could be vouched
    /// for when this was called: that is no loss. The server is asked on in the background until the lease must have
    /// ended.
    pub async fn release(mut self) -> Result<(), Error> {
        self.release_all().await
    }

    async fn release_all(&mut self) -> Result<(), Error> {
        // Not `FuturesUnordered`, which wakes its task for nothing, and with it another thread.
        let released = heard(join_all(self.locks.iter_mut().map(HeldLock::release))).await;
        // A loss says more than a doubt, and both say more than a server that does not reply.
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
