//! For programs without async code: a call blocks its thread. Leases are renewed in the client's own thread meanwhile.

use crate::callbacks;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

/// Blocks this thread until a call of this client is done, for programs without async code.
///
/// ```no_run
/// # fn ship() {}
/// # fn example() -> Result<(), rlock_client::Error> {
/// use rlock_client::{Locks, block_on};
///
/// let locks = block_on(Locks::connect("redis://127.0.0.1:6379"))?;
/// let guard = block_on(locks.lock("orders:42").acquire())?;
/// ship();
/// block_on(guard.release())
/// # }
/// ```
///
/// In async code it blocks everything else in that thread.
pub fn block_on<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    loop {
        if let Some(done) = callbacks::block_until(call.as_mut(), None) {
            return done;
        }
    }
}

/// The same with a time limit, for a caller that has to check something else now and then, such as a signal, and then
/// continues the same call. `None`: the call is not done yet.
pub fn block_on_for<T>(call: Pin<&mut impl Future<Output = T>>, limit: Duration) -> Option<T> {
    callbacks::block_until(call, Instant::now().checked_add(limit))
}
