//! For programs without async code: the same calls, which block their thread. Leases are renewed in the client's own
//! thread meanwhile.

use crate::address::Address;
use crate::error::Error;
use crate::foreign;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::locks::Locks;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

/// Blocks this thread until a call of this client has come to its end: any, also those that have no blocking form of
/// their own.
///
/// ```no_run
/// # fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
/// rlock_client::block_on(locks.settle());
/// # Ok(())
/// # }
/// ```
///
/// Within async code it holds up all that goes on in that thread.
pub fn block_on<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    loop {
        if let Some(done) = foreign::block_until(call.as_mut(), None) {
            return done;
        }
    }
}

/// The same for so long at most: for a caller that has to look for something else now and then, such as a signal, and then
/// goes on with the same call. `None`: it has not come to its end.
pub fn block_on_for<T>(call: Pin<&mut impl Future<Output = T>>, limit: Duration) -> Option<T> {
    foreign::block_until(call, Instant::now().checked_add(limit))
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
impl<F, K> Lock<F, K> {
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
