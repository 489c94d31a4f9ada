//! A lock, a permit, or several locks, with the options to acquire them.

use crate::arguments;
use crate::callbacks::woken_safely;
use crate::fencing::{Fenced, Fencing, Unfenced};
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

/// A lock, one side of a read-write lock, one of several permits, or several locks, with the options to acquire them.
/// Only the three methods that acquire it send requests; a `Lock` can be used any number of times.
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
    /// One, except for several locks.
    names: Vec<Arc<[u8]>>,
    terms: Terms,
    owner: Option<Arc<[u8]>>,
    fencing: Fencing<F>,
    kind: PhantomData<K>,
}

/// A read-write lock by its name. It is held by one of its sides.
///
/// With the same [`owner`](Lock::owner), a writer may also read, and a reader may read again. A reader cannot become
/// the writer: release the read side first, acquire the write side, and check again what you had read.
///
/// ```no_run
/// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let prices = locks.read_write("prices:lock");
/// let reading = prices.read().acquire().await?;
/// // … others read at the same time …
/// reading.release().await?;
/// let writing = prices.write().acquire().await?;
/// // … no other client reads or writes …
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

    /// Requests a fencing token with each grant: [`Guard::token`]; for several locks one each. It costs no additional
    /// request. It protects only storage that refuses a token lower than the last one.
    pub fn fenced(self) -> Lock<Fenced, K> {
        let Self { shared, names, terms, owner, .. } = self;
        let terms = Terms { fenced: true, ..terms };
        Lock { shared, names, terms, owner, fencing: Fenced::of, kind: PhantomData }
    }
}

impl<F> Lock<F> {
    /// Acquires in the name of this owner, which may acquire the lock again while holding it: the lock is free when all
    /// its guards are gone. Without an owner each guard is a separate holder, and a task that holds the lock and
    /// acquires it again waits for itself.
    ///
    /// An owner belongs to one client at a time. To the server, all clients that use one owner are one holder: two
    /// programs with the same owner have the lock at the same time, and if both wait for it, the later wait replaces
    /// the earlier one, which fails with [`ErrorKind::Refused`]. Within a client the acquires of an owner run one after
    /// the other; while one waits, [`try_acquire`](Self::try_acquire) returns `None`.
    ///
    /// An owner has 1 to 512 bytes, is not `mode`, and does not end in `:write`.
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.owner = Some(Arc::from(owner.as_ref()));
        self
    }
}

impl<F, K> Lock<F, K> {
    /// Sets another lease than the client's; the watchdog renews it too.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Lasting::Kept(lease);
        self
    }

    /// Sets a lease without renewals: the lock is lost when it ends, even if the program goes on. A machine that was
    /// suspended [notices that too late](crate#what-a-lease-does-not-promise).
    pub fn fixed_lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Lasting::Fixed(lease);
        self
    }

    /// Waits only if fewer clients than this wait for the lock; otherwise the server refuses at once, with
    /// [`ErrorKind::QueueFull`]. For callers to which a late lock is useless. At least 1.
    pub fn max_waiters(mut self, count: u32) -> Self {
        self.terms.max = Some(count);
        self
    }

    /// After the grant, waits until this many replicas, at least 1, have confirmed it. If they have not in time, the
    /// lock is released with the error [`ErrorKind::TooFewReplicas`], which has their number. This time is in addition
    /// to that of [`acquire_timeout`](Self::acquire_timeout), and should be much shorter than the lease, which runs in
    /// the meantime.
    ///
    /// Replicas have to confirm each renewal too, within this time or a sixth of the lease, if that is shorter: the
    /// guard is guaranteed only for as long as they have confirmed. If they do not confirm for too long, it is
    /// [lost](crate::Loss::NotRenewed), although the server may still have the lock. Renewals that are due together
    /// share one WAIT.
    ///
    /// A failover to a replica that has confirmed forgets nothing; but if its clock is ahead of the old master's, the
    /// lease ends sooner by that difference. A replica that has not confirmed may also become the master: to rule that
    /// out, require all replicas. A grace (`rlock.grace`) keeps others out in either case, for as long as this guard
    /// may be guaranteed.
    pub fn replicas(mut self, wanted: usize, timeout: Duration) -> Self {
        self.terms.replicas = Some(Replicas { wanted, timeout });
        self
    }

    /// Acquires the lock if that is possible at once. `None`: another client has it or is ahead in the queue, or the
    /// server grants nothing in a [grace](crate#fairness) after a start or a failover. The result comes within
    /// [`Options::answer_timeout`](crate::Options::answer_timeout), including a new connection if necessary.
    ///
    /// # Fairness
    /// It overtakes no waiter, and takes no place in the queue.
    ///
    /// # Cancel safety
    /// If dropped at any time, it leaves no hold: the client releases in the background what a request may have been
    /// granted.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server cannot be reached (the client retries once, over a new connection, if
    /// the old one was broken), [`ErrorKind::Lost`] if the reply took longer than the lease, and the server's refusals.
    pub async fn try_acquire(&self) -> Result<Option<Guard<F>>, Error> {
        self.acquire_if(Until::Now).await
    }

    /// Acquires the lock, however long that takes.
    ///
    /// # Fairness
    /// The client that asks first gets it first, among all clients of the RLOCK commands. Readers and writers of one lock
    /// take turns. The place in the queue survives a broken connection if the client reconnects within 3 s. If the
    /// server restarts or fails over, the place is lost, and the client asks again, from the end.
    ///
    /// # Cancel safety
    /// If dropped at any time, it leaves neither a waiter nor a hold: in the background the client cancels the wait,
    /// and releases the lock if it was granted.
    ///
    /// # Errors
    /// Like [`try_acquire`](Self::try_acquire), except that silent servers are asked again for as long as
    /// [`Options::patience`](crate::Options::patience). [`ErrorKind::QueueFull`] if too many wait already.
    /// [`ErrorKind::Deadlock`] for a reader that requests the write side, if both have the same [`owner`](Self::owner):
    /// without one the server cannot know.
    pub async fn acquire(&self) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::Granted).await
    }

    /// Acquires the lock within this time, which is for everything: connecting, waiting, and replies. It is exceeded by
    /// at most 5 ms, unless this machine is overloaded. With a limit of zero it tries once, like
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Fairness
    /// Like [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// Like [`acquire`](Self::acquire), and [`ErrorKind::Timeout`] if the lock was not free in time, or a
    /// [grace](crate#fairness) lasts longer; [`ErrorKind::Unavailable`] if no server had said so before the end.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::within(limit, Instant::now())).await
    }

    async fn acquire_until(&self, until: Until) -> Result<Guard<F>, Error> {
        match self.acquire_if(until).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::new(ErrorKind::Timeout, self.shown())),
        }
    }

    /// For its owner, if it has one; otherwise for a new holder.
    async fn acquire_if(&self, until: Until) -> Result<Option<Guard<F>>, Error> {
        let shown = self.shown();
        let (key, more) = arguments::checked(&self.names, &shown, &self.terms, self.owner.as_deref())?;
        let holder = self.owner.clone().unwrap_or_else(|| self.shared.fresh_holder());
        let span = debug_span!("acquire", lock = %shown, holder = %String::from_utf8_lossy(&holder));
        let (key, more, named) = (key.clone(), more.to_vec(), self.owner.is_some());
        let wish = Wish { aim: Aim::Lock, key, more, holder, named, terms: self.terms, until };
        match woken_safely(acquire(&self.shared, wish)).instrument(span).await {
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

    /// The side that any number of readers can have at the same time.
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
