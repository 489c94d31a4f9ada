//! How long the module may go on by itself before the server's other clients get their turn.

use crate::server::api::api;

/// A few ms, since the answers to those who were granted a lock meanwhile come on top of it, and take about as long again.
const TURN_US: u64 = 3_000;

/// One turn of the event loop, as far as it is ours.
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

fn monotonic_us() -> u64 {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}
