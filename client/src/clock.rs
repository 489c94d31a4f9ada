//! The time by which leases are counted, in whatever runtime that is asked for. Tests of programs may hold a runtime's own
//! clock, or move it; the server's goes on.

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    // The client's own tests move it.
    if cfg!(test) { Instant::now() } else { Instant::from_std(std::time::Instant::now()) }
}
