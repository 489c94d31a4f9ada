//! How long the module may go on before the server's other clients get their turn.

use crate::server::ffi::api::api;

/// A few ms, since the answers to the waiters granted meanwhile come on top of it, and take about as long again.
const TURN_US: u64 = 3_000;

/// The module's part of one turn of the event loop.
pub(super) struct Turn {
    ends_at: u64,
}

impl Turn {
    pub fn begin() -> Self {
        Self { ends_at: monotonic_us().saturating_add(TURN_US) }
    }

    pub fn is_over(&self) -> bool {
        monotonic_us() >= self.ends_at
    }
}

/// By a clock that nobody sets.
pub(super) fn monotonic_us() -> u64 {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}
