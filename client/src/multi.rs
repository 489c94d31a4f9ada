//! All locks of a set, or none.
//!
//! They are acquired one after the other, everywhere in the same order: by name, then by server. So of all callers
//! whose sets overlap, one always has the lock that comes last among those taken, and goes on: no two wait for each
//! other.

use crate::engine::Until;
use crate::error::{Error, ErrorKind};
use crate::fencing::{Fenced, Unfenced};
use crate::guard::Guard;
use crate::lock::Lock;
use std::time::Duration;

/// Several locks that are acquired together, on one server or on several. See [`multi`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Multi<F = Unfenced> {
    /// As they were given, without those that were given twice.
    locks: Vec<Lock<F>>,
}

/// All of these locks or none. They may be of any kind, on any servers; each keeps its own lease, owner and token. A
/// lock that is named twice counts once.
///
/// Two of them cannot wait for each other in a circle if both name the servers by the same addresses. Other code that
/// holds one of the locks and waits for another can; so against such code set a time limit.
///
/// ```no_run
/// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let accounts = rlock_client::multi([locks.lock("account:1"), locks.lock("account:2")]);
/// let guard = accounts.acquire().await?;
/// guard.run(async { /* … move the money … */ }).await
/// # }
/// ```
pub fn multi<F>(locks: impl IntoIterator<Item = Lock<F>>) -> Multi<F> {
    let mut distinct: Vec<Lock<F>> = Vec::new();
    for lock in locks {
        if !distinct.iter().any(|other| other.place() == lock.place()) {
            distinct.push(lock);
        }
    }
    Multi { locks: distinct }
}

impl Multi {
    /// Asks for a fencing token of each of them, which [`Guard::tokens`] tells.
    pub fn fenced(self) -> Multi<Fenced> {
        Multi { locks: self.locks.into_iter().map(Lock::fenced).collect() }
    }
}

impl<F> Multi<F> {
    /// Acquires all of them if that can be done at once. `None`: somebody else has one of them.
    ///
    /// # Fairness
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], for the first lock that has one.
    pub async fn try_acquire(&self) -> Result<Option<Guard<F>>, Error> {
        self.acquire_all(Until::Now).await
    }

    /// Acquires all of them, however long that takes.
    ///
    /// # Fairness
    /// Each lock has its own queue, which is first in, first out.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`]; what was acquired already is given back.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::Granted).await
    }

    /// Acquires all of them within that time, which is for all together.
    ///
    /// # Fairness
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::acquire_timeout`].
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard<F>, Error> {
        self.acquire_until(Until::within(limit)).await
    }

    async fn acquire_until(&self, until: Until) -> Result<Guard<F>, Error> {
        match self.acquire_all(until).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::new(ErrorKind::Timeout, self.names())),
        }
    }

    async fn acquire_all(&self, until: Until) -> Result<Option<Guard<F>>, Error> {
        let Some(first) = self.locks.first() else {
            return Err(Error::configuration("multi", "there is no lock in the set"));
        };
        let mut order: Vec<_> = self.locks.iter().enumerate().collect();
        order.sort_by_key(|(_, lock)| lock.place());
        // One holder for all: a caller that asks for both sides of a read-write lock shall not wait for itself.
        let holder = first.shared.fresh_holder();
        let mut held = Vec::with_capacity(order.len());
        for (index, lock) in order {
            // Dropped on the way, those that are held so far are given back.
            match lock.acquire_as(Some(holder.clone()), until).await? {
                Some(lock) => held.push((index, lock)),
                None => return Ok(None),
            }
        }
        held.sort_by_key(|(index, _)| *index);
        let mut held = held.into_iter().map(|(_, lock)| lock);
        let guard = held.next().map(|first| Guard::of(first, held.collect()));
        match guard.filter(|guard: &Guard<F>| !guard.is_lost()) {
            Some(guard) => Ok(Some(guard)),
            None => Err(Error::new(ErrorKind::Lost, self.names())),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.locks.iter().map(Lock::shown).collect();
        names.join(", ")
    }
}
