//! One lock on several servers that know nothing of each other, held by the client that has it on most of them.

use super::distinct;
use crate::clock::now;
use crate::core::{HeldLock, Until};
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lock::Lock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

/// A server that takes longer than this to answer counts as one that did not.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Or longer than this part of the lease, of which there has to be something left.
const SERVER_TIMEOUTS_PER_LEASE: u32 = 10;

/// When most have granted it, the others get as long again, and at least this long.
const GRACE_MIN: Duration = Duration::from_millis(10);

/// A lock that is held on most of several servers. See [`redlock`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Redlock {
    locks: Vec<Lock>,
}

/// The same lock on several independent servers: the guard is good for as long as it is held on most of them, so a
/// minority may fail. What can be vouched for is the lease, less the time it took to acquire it, less what two clocks
/// may differ by.
///
/// There is no queue that spans the servers: a client that finds it taken tries again after a random pause. Fencing
/// tokens of several servers cannot be compared, so its guard has none. An [`owner`](Lock::owner) is refused, since each
/// round has a holder of its own. One server with replicas and fencing tokens is the better choice for most.
///
/// ```no_run
/// # async fn example(a: rlock_client::Locks, b: rlock_client::Locks, c: rlock_client::Locks)
/// # -> Result<(), rlock_client::Error> {
/// let nightly = rlock_client::redlock([a.lock("nightly"), b.lock("nightly"), c.lock("nightly")]);
/// let guard = nightly.acquire().await?;
/// guard.run(async { /* … */ }).await
/// # }
/// ```
pub fn redlock(locks: impl IntoIterator<Item = Lock>) -> Redlock {
    Redlock { locks: locks.into_iter().collect() }
}

const NO_SERVER: &str = "there is no server";

/// What the servers said in one round.
#[derive(Default)]
struct Round {
    granted: Vec<HeldLock>,
    busy: usize,
    errors: Vec<Error>,
}

impl Redlock {
    /// Asks each server once. `None`: somebody else has it.
    ///
    /// # Fairness
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if too few servers answer, and what they refuse.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        let end = now() + self.server_timeout();
        self.in_its_thread(move |it| async move { it.attempt(end).await }).await
    }

    /// Acquires it, however long that takes.
    ///
    /// # Fairness
    /// None: the client that tries at the right moment gets it.
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if too few servers answer for as long as
    /// [`Options::patience`](crate::Options::patience) says, and what they refuse.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_until(Until::Granted).await
    }

    /// Acquires it within that time.
    ///
    /// # Fairness
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if it was not free in time, [`ErrorKind::Unavailable`] if too few servers answered by
    /// then, and what they refuse.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, Error> {
        self.acquire_until(Until::within(limit)).await
    }

    async fn acquire_until(&self, until: Until) -> Result<Guard, Error> {
        self.in_its_thread(move |it| async move { it.acquire_there(until).await }).await
    }

    /// Where there are timers, whatever the caller's runtime has.
    async fn in_its_thread<T: Send + 'static, W: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> W,
    ) -> Result<T, Error> {
        self.make_sense()?;
        let Some(lock) = self.locks.first() else { return Err(Error::configuration("redlock", NO_SERVER)) };
        lock.shared.thread.ask(self.name(), work(self.clone())).await
    }

    async fn acquire_there(&self, until: Until) -> Result<Guard, Error> {
        let (mut reason, mut silent_since) = (None, None);
        loop {
            let left = until.left().unwrap_or(Duration::MAX);
            let whole = self.server_timeout();
            reason = match self.attempt(Instant::now() + left.min(whole)).await {
                Ok(Some(guard)) => return Ok(guard),
                Ok(None) => Some(Error::new(ErrorKind::Timeout, self.name())),
                Err(error) if !error.is_unavailable() => return Err(error),
                // In a round that was cut short, servers that are well may not have answered.
                Err(error) => reason.filter(|_| left < whole).or(Some(error)),
            };
            let is_silent = reason.as_ref().is_some_and(Error::is_unavailable);
            silent_since = silent_since.filter(|_| is_silent).or(is_silent.then(Instant::now));
            let is_too_long = |since: Instant| until.left().is_none() && since.elapsed() >= self.patience();
            let left = until.left().unwrap_or(Duration::MAX);
            match reason {
                Some(reason) if left.is_zero() || silent_since.is_some_and(is_too_long) => return Err(reason),
                _ => sleep(random_pause().min(left)).await,
            }
        }
    }

    /// One round. What was granted by too few is given back.
    async fn attempt(&self, until: Instant) -> Result<Option<Guard>, Error> {
        let Round { granted, busy, errors } = self.round(until).await;
        if granted.len() >= self.majority() {
            let guard = Guard::of_at_least(self.majority(), granted);
            return Ok(Some(guard).filter(|guard| !guard.is_lost()));
        }
        if granted.len() + busy >= self.majority() {
            return Ok(None);
        }
        let refused = errors.into_iter().find(|error| !error.is_unavailable());
        Err(refused.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, self.name())))
    }

    fn make_sense(&self) -> Result<(), Error> {
        let problem = if self.locks.is_empty() {
            NO_SERVER
        } else if distinct(self.locks.iter().cloned()).len() < self.locks.len() {
            "a server is named twice, which would count twice"
        } else if self.locks.iter().any(|lock| lock.owner.is_some()) {
            "an owner cannot acquire it again, as rounds that fail are given back as a whole"
        } else {
            return Ok(());
        };
        Err(Error::configuration(self.name(), problem))
    }

    /// Asks all servers at once, until that time or until it is clear that the others would take too long.
    async fn round(&self, mut until: Instant) -> Round {
        let began = Instant::now();
        let holder = self.locks.first().map(|lock| lock.shared.holders.fresh()).unwrap_or_default();
        let ask = self.locks.iter().map(|lock| lock.acquire_as(lock.hold_of(holder.clone()), Until::Now));
        let mut asked: FuturesUnordered<_> = ask.collect();
        let mut round = Round::default();
        while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
            match answer {
                Ok(Some(held)) => round.granted.push(held),
                Ok(None) => round.busy += 1,
                Err(error) => round.errors.push(error),
            }
            if round.granted.len() == self.majority() {
                until = until.min(Instant::now() + began.elapsed().max(GRACE_MIN));
            }
        }
        round
    }

    fn majority(&self) -> usize {
        self.locks.len() / 2 + 1
    }

    fn server_timeout(&self) -> Duration {
        let lease = self.locks.iter().map(|lock| lock.terms.lease.length()).min().unwrap_or_default();
        SERVER_TIMEOUT.min(lease / SERVER_TIMEOUTS_PER_LEASE)
    }

    fn patience(&self) -> Duration {
        self.locks.iter().map(|lock| lock.shared.settings.patience).min().unwrap_or_default()
    }

    fn name(&self) -> &[u8] {
        self.locks.first().map_or(b"", |lock| &lock.name)
    }
}

/// So that two clients that got in each other's way do not do so again.
fn random_pause() -> Duration {
    let random = u64::from(Uuid::new_v4().as_bytes()[0]);
    Duration::from_millis(10 + random / 2)
}
