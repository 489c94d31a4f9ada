//! Several locks as one: all of them, or a majority.

mod multi;
mod redlock;

pub use multi::{Multi, multi};
pub use redlock::{Redlock, redlock};

use std::time::Duration;

/// How long to try, for each lock, if the caller sets no limit.
const TIME_PER_LOCK: Duration = Duration::from_millis(1_500);
