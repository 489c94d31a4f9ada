//! A lock by its name, and how it is to be acquired.

use crate::engine::{Lasting, Replicas, Side, Terms, Until, Wish};
use crate::error::{Error, ErrorKind};
use crate::fencing::{Fenced, Unfenced};
use crate::foreign::heard;
use crate::guard::Guard;
use crate::held_lock::{HeldLock, acquire};
use crate::shell::Shared;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, debug_span};

/// A lock, or one side of a read-write lock, and how it is to be acquired. Nothing is sent before one of the three
/// methods that acquire it; the same `Lock` can be used any number of times.
///
/// ```no_run
/// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let guard = locks.lock("orders:42").acquire().await?;
/// # guard.release().await
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Lock<F = Unfenced> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Arc<[u8]>,
    terms: Terms,
    owner: Option<Arc<[u8]>>,
    fencing: PhantomData<F>,
}

/// A read-write lock by its name. It is held by one of its sides.
///
/// A writer may read as well, and a reader may read once more, with the same [`owner`](Lock::owner). A reader cannot
/// become the writer: it gives the read side back first, and looks again at what it had read.
///
/// ```no_run
/// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let prices = locks.read_write("prices:lock");
/// let reading = prices.read().acquire().await?;
/// // … others read at the same time …
/// reading.release().await?;
/// let writing = prices.write().acquire().await?;
/// // … nobody else reads or writes …
/// writing.release().await
/// # }
/// ```
#[derive(Clone)]
pub struct ReadWriteLock {
    shared: Arc<Shared>,
    name: Arc<[u8]>,
}

impl Lock {
    pub(crate) fn new(shared: Arc<Shared>, name: Arc<[u8]>, side: Side) -> Self {
        let terms = Terms { side, lease: Lasting::Kept(shared.settings.lease), fenced: false, replicas: None };
        Self { shared, name, terms, owner: None, fencing: PhantomData }
    }

    /// Asks for a fencing token with each grant, which [`Guard::token`] tells. It costs no further request. It protects
    /// only what is written to a place that refuses lower tokens than the last it saw.
    pub fn fenced(self) -> Lock<Fenced> {
        let Self { shared, name, terms, owner, .. } = self;
        Lock { shared, name, terms: Terms { fenced: true, ..terms }, owner, fencing: PhantomData }
    }
}

impl<F> Lock<F> {
    /// A lease of another length than the client's, kept alive by the watchdog as well.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Lasting::Kept(lease);
        self
    }

    /// A lease that nobody renews: the lock is lost when it ends, also if the program goes on. A machine that was
    /// suspended [notices that too late](crate#what-a-lease-does-not-promise).
    pub fn fixed_lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Lasting::Fixed(lease);
        self
    }

    /// Acquires in the name of this owner, who may acquire the lock again while holding it: the lock is free when all
    /// of its guards are gone. Without an owner each guard is a holder of its own, and a task that holds the lock and
    /// acquires it again waits for itself.
    ///
    /// An owner is for one client at a time. To the server all clients that use one owner are one holder, so two
    /// programs with one owner have the lock at the same time. The server allows 1 to 512 bytes, but not `mode`, nor
    /// what ends in `:write`.
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.owner = Some(Arc::from(owner.as_ref()));
        self
    }

    /// After the grant, waits until that many replicas have confirmed it. If they have not in time, the lock is
    /// released, and the error, [`ErrorKind::TooFewReplicas`], tells how many have. The time is beside that of
    /// [`acquire_timeout`](Self::acquire_timeout), and should be much shorter than the lease, which runs meanwhile.
    ///
    /// It makes a lock survive a failover more often, not always: a replica that has not confirmed may be the one that
    /// becomes master.
    pub fn replicas(mut self, wanted: usize, timeout: Duration) -> Self {
        self.terms.replicas = Some(Replicas { wanted, timeout });
        self
    }

    /// Acquires the lock if that can be done at once. `None`: somebody else has it, or is before us in the queue. The
    /// answer, with a new connection if it takes one, comes within
    /// [`Options::answer_timeout`](crate::Options::answer_timeout).
    ///
    /// # Fairness
    /// It overtakes no client that waits, and has no place in the queue.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no hold behind: a request that may have been granted is taken back in the
    /// background.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server cannot be asked (once more over a new connection, if the old one was
    /// broken), [`ErrorKind::Lost`] if the answer took longer than the lease, and what the server refuses.
    pub async fn try_acquire(&self) -> Result<Option<Guard<F>>, Error> {
        Ok(self.acquire_one(Until::Now).await?.map(|lock| Guard::of(lock, Vec::new())))
    }

    /// Acquires the lock, however long that takes.
    ///
    /// # Fairness
    /// The client that asks first gets it first, among all that ask by RLOCK commands. Readers and writers of one lock
    /// take turns. The place in the queue outlives a connection that breaks, if there is another one within 3 s. When
    /// the server restarts or fails over, the place is lost, and it is asked again from the end.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves neither a waiter nor a hold behind: in the background the server is told that it
    /// waits no more, and a grant that came all the same is taken back.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), but servers that do not answer are asked again for as long as
    /// [`Options::patience`](crate::Options::patience) says. [`ErrorKind::QueueFull`] if too many wait already.
    /// [`ErrorKind::Deadlock`] for a reader that wants to be the writer, if both have the same [`owner`](Self::owner):
    /// without one the server cannot know.
    pub async fn acquire(&self) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::Granted).await
    }

    /// Acquires the lock within that time. The time is for everything: connecting, waiting, and the answers. It is
    /// exceeded by 5 ms at most, as far as this machine keeps up. With no time at all it is tried once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Fairness
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`ErrorKind::Timeout`] if the lock was not free in time;
    /// [`ErrorKind::Unavailable`] if no server had said so by then.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::within(limit)).await
    }

    /// Where it is and which side of it, in an order that all clients agree on. Writing comes before reading: a writer
    /// may read, but no reader may write.
    pub(crate) fn place(&self) -> (&[u8], &str, Side) {
        (&self.name, &self.shared.place, self.terms.side)
    }

    async fn acquire_until(&self, until: Until) -> Result<Guard<F>, Error> {
        match self.acquire_one(until).await? {
            Some(held) => Ok(Guard::of(held, Vec::new())),
            None => Err(Error::new(ErrorKind::Timeout, &self.name)),
        }
    }

    async fn acquire_one(&self, until: Until) -> Result<Option<HeldLock>, Error> {
        self.acquire_as(None, until).await
    }

    /// For its owner, if it has one; else for this holder, or one that nobody has had before.
    pub(crate) async fn acquire_as(&self, holder: Option<Arc<[u8]>>, until: Until) -> Result<Option<HeldLock>, Error> {
        let (key, named) = (self.name.clone(), self.owner.is_some());
        let holder = self.owner.clone().or(holder).unwrap_or_else(|| self.shared.fresh_holder());
        let span = debug_span!("acquire", lock = %self.shown(), holder = %String::from_utf8_lossy(&holder));
        let wish = Wish { key, holder, named, terms: self.terms, until };
        heard(acquire(&self.shared, wish)).instrument(span).await
    }

    pub(crate) fn shown(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }
}

impl ReadWriteLock {
    pub(crate) fn new(shared: Arc<Shared>, name: Arc<[u8]>) -> Self {
        Self { shared, name }
    }

    /// The side that any number of readers have at the same time.
    pub fn read(&self) -> Lock {
        Lock::new(self.shared.clone(), self.name.clone(), Side::Read)
    }

    /// The side that one writer has alone.
    pub fn write(&self) -> Lock {
        Lock::new(self.shared.clone(), self.name.clone(), Side::Write)
    }
}

impl<F> fmt::Debug for Lock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.shown()).field("side", &self.terms.side).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name);
        f.debug_struct("ReadWriteLock").field("name", &name).finish_non_exhaustive()
    }
}
