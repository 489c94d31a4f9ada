//! A lock by its name, a permit, or several locks, and how they are to be acquired.

use crate::arguments;
use crate::fencing::{Fenced, Fencing, Unfenced};
use crate::foreign::heard;
use crate::guard::Guard;
use crate::held_lock::acquire;
use crate::kind::Single;
use crate::shell::Shared;
use rlock_client_core::{Aim, Fault, Lasting, Replicas, Side, Terms, Until, Wish};
use rlock_client_core::{Error, ErrorKind};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{Instrument, debug_span};

/// A lock, or one side of a read-write lock, one of several permits, or several locks; and how they are to be acquired.
/// Nothing is sent before one of the three methods that acquire it; the same `Lock` can be used any number of times.
///
/// ```no_run
/// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let guard = locks.lock("orders:42").acquire().await?;
/// # guard.release().await
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Lock<F = Unfenced, K = Single> {
    shared: Arc<Shared>,
    /// One, but of several locks.
    names: Vec<Arc<[u8]>>,
    terms: Terms,
    owner: Option<Arc<[u8]>>,
    fencing: Fencing<F>,
    kind: PhantomData<K>,
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

impl<K> Lock<Unfenced, K> {
    pub(crate) fn new(shared: Arc<Shared>, names: Vec<Arc<[u8]>>, side: Side, permits: Option<u32>) -> Self {
        let lease = Lasting::Kept(shared.settings.lease);
        let terms = Terms { side, permits, max: None, lease, fenced: false, replicas: None };
        Self { shared, names, terms, owner: None, fencing: Unfenced::of, kind: PhantomData }
    }

    /// Asks for a fencing token with each grant, which [`Guard::token`] tells; of several locks for one of each. It costs no
    /// further request. It protects only what is written to a place that refuses lower tokens than the last it saw.
    pub fn fenced(self) -> Lock<Fenced, K> {
        let Self { shared, names, terms, owner, .. } = self;
        let terms = Terms { fenced: true, ..terms };
        Lock { shared, names, terms, owner, fencing: Fenced::of, kind: PhantomData }
    }
}

impl<F> Lock<F> {
    /// Acquires in the name of this owner, who may acquire the lock again while holding it: the lock is free when all
    /// of its guards are gone. Without an owner each guard is a holder of its own, and a task that holds the lock and
    /// acquires it again waits for itself.
    ///
    /// An owner is for one client at a time. To the server all clients that use one owner are one holder: two programs
    /// with one owner have the lock at the same time, and if both wait for it, the later wait takes the place of the
    /// earlier one, which fails with [`ErrorKind::Refused`]. Within a client the acquires of an owner go one after the
    /// other; while one waits, [`try_acquire`](Self::try_acquire) returns `None`.
    ///
    /// 1 to 512 bytes, not `mode`, and not ending in `:write`.
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.owner = Some(Arc::from(owner.as_ref()));
        self
    }
}

impl<F, K> Lock<F, K> {
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

    /// Waits only if fewer than that many wait for this lock already; otherwise the server refuses at once, with
    /// [`ErrorKind::QueueFull`]. For a caller that has no use for a lock that comes late. At least 1.
    pub fn max_waiters(mut self, count: u32) -> Self {
        self.terms.max = Some(count);
        self
    }

    /// After the grant, waits until that many replicas, at least 1, have confirmed it. If they have not in time, the lock is
    /// released, and the error, [`ErrorKind::TooFewReplicas`], tells how many have. The time is beside that of
    /// [`acquire_timeout`](Self::acquire_timeout), and should be much shorter than the lease, which runs meanwhile.
    ///
    /// Each renewal is to be confirmed as well, within that time or a sixth of the lease, if that is shorter: the guard is
    /// vouched for only until what replicas have confirmed. If they do not for too long, it is
    /// [lost](crate::Loss::NotRenewed), though the server may have the lock still. Renewals that are due together have one
    /// WAIT.
    ///
    /// A failover to a replica that has confirmed forgets nothing; but by how much its clock is ahead of the old master's,
    /// the lease ends sooner there. And one that has not confirmed may become master all the same: all replicas have to
    /// confirm for that to be ruled out. A grace (`rlock.grace`) keeps others out in either case, for as long as this guard
    /// may be vouched for.
    pub fn replicas(mut self, wanted: usize, timeout: Duration) -> Self {
        self.terms.replicas = Some(Replicas { wanted, timeout });
        self
    }

    /// Acquires the lock if that can be done at once. `None`: another client has it or is before this one in the queue, or
    /// the server grants nothing in a [grace](crate#fairness) after a start or a failover. The answer, with a new connection if it takes one, comes within
    /// [`Options::answer_timeout`](crate::Options::answer_timeout).
    ///
    /// # Fairness
    /// It overtakes no client that waits, and has no place in the queue.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves no hold behind: what a request may have been granted is released in the
    /// background.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server cannot be asked (once more over a new connection, if the old one was
    /// broken), [`ErrorKind::Lost`] if the answer took longer than the lease, and what the server refuses.
    pub async fn try_acquire(&self) -> Result<Option<Guard<F>>, Error> {
        self.acquire_if(Until::Now).await
    }

    /// Acquires the lock, however long that takes.
    ///
    /// # Fairness
    /// The client that asks first gets it first, among all that ask by RLOCK commands. Readers and writers of one lock
    /// take turns. The place in the queue outlives a connection that breaks, if there is another one within 3 s. When
    /// the server restarts or fails over, the place is lost, and it is asked again from the end.
    ///
    /// # Cancel safety
    /// Dropped at any time, it leaves neither a waiter nor a hold behind: in the background the client cancels the wait,
    /// and releases the lock if it was granted all the same.
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
    /// As [`acquire`](Self::acquire), and [`ErrorKind::Timeout`] if the lock was not free in time, or a
    /// [grace](crate#fairness) lasts longer;
    /// [`ErrorKind::Unavailable`] if no server had said so by then.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::within(limit, Instant::now())).await
    }

    async fn acquire_until(&self, until: Until) -> Result<Guard<F>, Error> {
        match self.acquire_if(until).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::new(ErrorKind::Timeout, self.shown())),
        }
    }

    /// For its owner, if it has one; else for a holder that nobody has had before.
    async fn acquire_if(&self, until: Until) -> Result<Option<Guard<F>>, Error> {
        let shown = self.shown();
        let (key, more) = arguments::checked(&self.names, &shown, &self.terms, self.owner.as_deref())?;
        let holder = self.owner.clone().unwrap_or_else(|| self.shared.fresh_holder());
        let span = debug_span!("acquire", lock = %shown, holder = %String::from_utf8_lossy(&holder));
        let (key, more, named) = (key.clone(), more.to_vec(), self.owner.is_some());
        let wish = Wish { aim: Aim::Lock, key, more, holder, named, terms: self.terms, until };
        match heard(acquire(&self.shared, wish)).instrument(span).await {
            Ok(None) => Ok(None),
            Ok(Some(held)) => match (self.fencing)(&held) {
                Some(fencing) => Ok(Some(Guard::of(held, fencing, self.terms))),
                None => Err(Fault::not_an_answer().into_error(shown.as_bytes())),
            },
            Err(error) if self.names.len() > 1 => Err(error.about_all(shown)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn shown(&self) -> String {
        self.names.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(", ")
    }
}

impl ReadWriteLock {
    pub(crate) fn new(shared: Arc<Shared>, name: Arc<[u8]>) -> Self {
        Self { shared, name }
    }

    /// The side that any number of readers have at the same time.
    pub fn read(&self) -> Lock {
        Lock::new(self.shared.clone(), vec![self.name.clone()], Side::Read, None)
    }

    /// The side that one writer has alone.
    pub fn write(&self) -> Lock {
        Lock::new(self.shared.clone(), vec![self.name.clone()], Side::Write, None)
    }
}

impl<F, K> fmt::Debug for Lock<F, K> {
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
