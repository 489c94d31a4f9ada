//! For programs without async code: a call blocks its thread. Leases are renewed in the client's own thread meanwhile.

use crate::foreign;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

/// Blocks this thread until a call of this client has come to its end, for programs without async code.
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
