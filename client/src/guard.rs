//! What is held, for as long as it is.

use crate::error::{Error, ErrorKind};
use crate::farewell::{self, Told};
use crate::hold::{Hold, Vouched};
use crate::locks::Shared;
use crate::loss::Loss;
use crate::request::Side;
use futures_util::StreamExt;
use futures_util::future::pending;
use futures_util::stream::FuturesUnordered;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A lock that is held: one, [several](crate::multi), or [a majority](crate::redlock).
///
/// **Dropped**, it is released in the background, as best that can be done: nobody learns whether it was, and where the
/// program or its runtime ends at the same time, the lock stays taken until its lease ends. Prefer
/// [`release`](Self::release).
///
/// # What a lease does not promise
/// The server gives the lock to somebody else when the lease has ended, whether or not this program knows. It is told in time
/// by [`lost`](Self::lost), if it runs at all: a program that stands still (a paused machine, a blocked thread) does not
/// look. What must never happen twice should check the [`token`](Self::token) where it is done.
/// [More of it](crate#what-a-lease-does-not-promise).
#[must_use = "dropped at once, it is released at once"]
pub struct Guard {
    parts: Vec<Part>,
    /// How many of the parts make it a guard.
    needed: usize,
}

impl Guard {
    pub(crate) fn of_one(part: Part) -> Self {
        Self { parts: vec![part], needed: 1 }
    }

    pub(crate) fn of_all(parts: Vec<Part>) -> Self {
        Self { needed: parts.len(), parts }
    }

    pub(crate) fn of_at_least(needed: usize, parts: Vec<Part>) -> Self {
        Self { parts, needed }
    }

    /// The fencing token of the grant, if the lock is [`fenced`](crate::Lock::fenced): larger than that of each fenced grant
    /// of this lock before. Of several locks, the first one's; of a [majority](crate::redlock), one that says nothing.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.parts.first().and_then(|part| part.token)
    }

    /// The fencing tokens of several locks, in the order in which the locks were given to [`multi`](crate::multi).
    pub fn tokens(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        self.parts.iter().map(|part| part.token)
    }

    /// The holder by which the server knows it: `<uuid>:<n>`, or the [`owner`](crate::Lock::owner).
    #[must_use]
    pub fn holder(&self) -> Cow<'_, str> {
        self.parts.first().map_or(Cow::Borrowed(""), Part::holder)
    }

    /// For how long it can still be vouched for, if nothing is renewed. Zero if it is lost. It asks no server.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let mut left: Vec<_> = self.parts.iter().map(Part::remaining).collect();
        left.sort_unstable();
        // It lasts as long as the last one without which there are too few.
        left.get(self.spare()).copied().unwrap_or_default()
    }

    /// Whether it can no longer be vouched for. Once lost, always lost. It asks no server, so work that does not await can
    /// look as often as it likes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Resolves when the lease can no longer be vouched for. Either it could have ended, counted from before the request was
    /// sent that began it: that is before the server can give the lock to somebody else. Or the server said, when it was asked
    /// to renew the lease, that the lock is not held: somebody had taken it away. Never resolves once the guard was released.
    ///
    /// # Cancel safety
    /// Cancel safe. It borrows nothing, so the guard can be released while it is there, and it can be asked for any number
    /// of times.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut losses: FuturesUnordered<_> = self.parts.iter().map(Part::lost).collect();
        let spare = self.spare();
        async move {
            for _ in 0..=spare {
                losses.next().await;
            }
        }
    }

    /// Why it is lost; nothing as long as it is not. It asks no server: it is what the last renewal came to.
    ///
    /// Of a guard that was followed by another one of the same [`owner`](crate::Lock::owner) it is no longer known; then it
    /// is [`Loss::Ended`]. Of [several](crate::multi) locks it is one's that is lost.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        let lost = if self.is_lost() { self.parts.iter().find(|part| part.is_lost()) } else { None };
        lost.map(|part| part.hold.loss())
    }

    /// Releases the lock, and waits for the server's word that it is. Of a [majority](crate::redlock) it waits for that
    /// many; the others are released in the background.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on in the background. It begins when this is first polled; a call that is never awaited
    /// drops the guard, which releases it as well.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it was not held any more when this was called: somebody else may have had it; and if [nobody
    /// knows](Error::is_in_doubt) whether it was, as the connection broke before the answer had come.
    /// [`ErrorKind::Unavailable`] if the server does not answer for as long as
    /// [`Options::patience`](crate::Options::patience) says, or not before the lease had ended, which could be vouched for
    /// when this was called: that is no loss. The server is asked on in the background until the lease must have ended.
    pub async fn release(mut self) -> Result<(), Error> {
        let mut farewells: FuturesUnordered<_> = self.parts.iter_mut().map(Part::say_farewell).collect();
        let (mut missing, mut problems) = (self.needed, Vec::new());
        while missing > 0 {
            match farewells.next().await {
                Some(Ok(())) => missing -= 1,
                Some(Err(error)) => problems.push(error),
                // It is clear what became of each, and too few were given back.
                None => return what_counts(problems, self.spare()),
            }
        }
        Ok(())
    }

    /// How many of the parts may be lost.
    fn spare(&self) -> usize {
        self.parts.len().saturating_sub(self.needed)
    }
}

/// That it was lost, if too many of its parts were; else why the others were not given back.
fn what_counts(problems: Vec<Error>, spare: usize) -> Result<(), Error> {
    let is_lost = problems.iter().filter(|problem| problem.is_lost()).count() > spare;
    problems.into_iter().find(|problem| problem.is_lost() == is_lost).map_or(Ok(()), Err)
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parts.iter().map(Part::name).collect();
        f.debug_struct("Guard").field("locks", &names).field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Term {
    /// Not, while the watchdog keeps it alive, which knows it by the ticket.
    Kept { ticket: u64 },
    /// By itself.
    Until(Instant),
}

impl Term {
    fn end(self, vouched: Vouched) -> Instant {
        match self {
            Self::Kept { .. } => vouched.until,
            Self::Until(end) => end.min(vouched.until),
        }
    }
}

/// One lock of a guard.
pub(crate) struct Part {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    side: Side,
    era: u64,
    lease: Duration,
    term: Term,
    token: Option<u64>,
    /// Gone when it was released.
    held: Option<watch::Sender<()>>,
}

impl Part {
    pub(crate) fn new(
        shared: Arc<Shared>,
        hold: Arc<Hold>,
        side: Side,
        era: u64,
        lease: Duration,
        term: Term,
        token: Option<u64>,
    ) -> Self {
        Self { shared, hold, side, era, lease, term, token, held: Some(watch::Sender::new(())) }
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.hold.key)
    }

    pub(crate) fn holder(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.hold.holder)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    fn remaining(&self) -> Duration {
        self.vouched_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Until when it can be vouched for, unless it is lost.
    fn vouched_until(&self) -> Option<Instant> {
        let vouched = self.hold.vouched();
        let until = self.term.end(vouched);
        (vouched.era == self.era && until > Instant::now()).then_some(until)
    }

    fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut vouched = self.hold.watch();
        let mut held = self.held.as_ref().map(watch::Sender::subscribe);
        let (era, term) = (self.era, self.term);
        async move {
            let Some(held) = &mut held else { return pending().await };
            loop {
                let now = *vouched.borrow_and_update();
                let until = term.end(now);
                if now.era != era || until <= Instant::now() {
                    return;
                }
                tokio::select! {
                    biased;
                    // Only ever an error: the guard has gone.
                    _ = held.changed() => return pending().await,
                    () = sleep_until(until) => {}
                    // Later or void: seen to above. Of a hold that is gone nothing comes any more.
                    changed = vouched.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// Gives it back, and waits for the server's word. What is sent is on its way before this is awaited.
    fn say_farewell(&mut self) -> impl Future<Output = Result<(), Error>> + use<> {
        let (name, told) = (self.hold.key.clone(), self.leave());
        async move {
            match told {
                // There was nothing to be said: it was lost before.
                None => Err(Error::new(ErrorKind::Lost, &name)),
                // The runtime has ended, if nobody is left to tell.
                Some(told) => told.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, &name))),
            }
        }
    }

    /// Begins to give it back. Nothing, if there is nothing to be given back.
    fn leave(&mut self) -> Option<Told> {
        self.held.take()?;
        if let Term::Kept { ticket } = self.term {
            self.shared.watchdog.unwatch(&self.hold, ticket);
        }
        let vouched = self.vouched_until();
        let extent = self.hold.leave(self.side, self.era)?;
        Some(farewell::begin(&self.shared, self.hold.clone(), self.side, extent, self.lease, vouched))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
