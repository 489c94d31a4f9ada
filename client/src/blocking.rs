//! For programs without async code: the same calls, which block their thread. Leases are renewed in the client's own
//! thread meanwhile.

use crate::address::Address;
use crate::error::Error;
use crate::foreign;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::locks::Locks;
use std::time::Duration;

/// Blocks this thread until a call of this client has come to its end: any, also those that have no blocking form of
/// their own.
///
/// ```no_run
/// # fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// let accounts = rlock_client::multi([locks.lock("account:1"), locks.lock("account:2")]);
/// let guard = rlock_client::block_on(accounts.acquire())?;
/// # guard.blocking_release()
/// # }
/// ```
///
/// Within async code it holds up all that goes on in that thread.
pub fn block_on<T>(call: impl Future<Output = T>) -> T {
    foreign::block_on(call)
}

/// With the feature `blocking`. Within async code they hold up all that goes on in that thread.
impl Locks {
    /// As [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn blocking_connect(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        block_on(Self::connect(address))
    }
}

/// With the feature `blocking`. Within async code they hold up all that goes on in that thread.
impl<F> Lock<F> {
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn blocking_try_acquire(&self) -> Result<Option<Guard<F>>, Error> {
        block_on(self.try_acquire())
    }

    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn blocking_acquire(&self) -> Result<Guard<F>, Error> {
        block_on(self.acquire())
    }

    /// As [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Errors
    /// As [`acquire_timeout`](Self::acquire_timeout).
    pub fn blocking_acquire_timeout(&self, limit: Duration) -> Result<Guard<F>, Error> {
        block_on(self.acquire_timeout(limit))
    }
}

/// With the feature `blocking`. Within async code they hold up all that goes on in that thread.
impl<F> Guard<F> {
    /// As [`release`](Self::release).
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn blocking_release(self) -> Result<(), Error> {
        block_on(self.release())
    }
}
