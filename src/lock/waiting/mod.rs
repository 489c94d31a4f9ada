//! Waiting for a lock: who waits, until when, and who is served next.
//!
//! - [`Queues`]: the waiters of each lock, first in first out
//! - [`Alarms`]: what is to be looked at when
//! - [`Room`]: all that is kept in memory of those who wait, and what is to be done for them
//! - [`Waits`]: how long they waited
//! - [`serve`]: who is served next, over a world that is the server's or a test's

mod agenda;
mod alarms;
mod namesakes;
mod queue;
mod room;
pub mod serve;
mod store;
mod waits;

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Seeded at random, as the standard one, since clients choose the names; but a hand-over asks these maps some twenty
/// times, and the standard hash would be a tenth of it.
type Map<K, V> = HashMap<K, V, RandomState>;

pub use alarms::{Alarm, Alarms};
pub use queue::{LockId, LockName, QUEUES_SKIPPED_MAX, QueueFull, Queues, Ticket, Waited};
pub use room::{Client, Granted, Hold, Next, Queued, Room, Waiter};
pub use waits::{CLASSES, Counters, Waits};
