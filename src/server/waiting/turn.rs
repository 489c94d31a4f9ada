//! How long the module may go on before the server's other clients get their turn.

use crate::server::ffi::api::api;
use std::cell::Cell;

/// A few ms, since the answers to the waiters granted meanwhile come on top of it, and take about as long again.
const TURN_US: u64 = 3_000;

/// The module's part of one turn of the event loop. It begins when it is first asked for: most commands never do.
#[derive(Default)]
pub(super) struct Turn {
    ends_at: Cell<Option<u64>>,
}

impl Turn {
    pub fn is_over(&self) -> bool {
        let now = monotonic_us();
        let ends_at = self.ends_at.get().unwrap_or_else(|| now.saturating_add(TURN_US));
        self.ends_at.set(Some(ends_at));
        now >= ends_at
    }
}

/// By a clock that nobody sets.
pub(super) fn monotonic_us() -> u64 {
    // SAFETY: takes nothing and returns a number.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) }
}
