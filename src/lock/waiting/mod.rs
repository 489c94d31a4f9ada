//! Waiting for a lock: who waits, until when, and who is served next.
//!
//! - [`Queues`]: the waiters of each lock, first in first out
//! - [`Alarms`]: what is to be looked at when
//! - [`Room`]: all that is kept in memory of those who wait
//! - [`Waits`]: how long they waited
//! - [`serve`]: who is served next, over a world that is the server's or a test's

mod alarms;
mod queue;
mod room;
pub mod serve;
mod waits;

pub use alarms::{Alarm, Alarms};
pub use queue::{LockName, Overview, QUEUES_LOOKED_AT_MAX, QueueFull, Queues, Ticket, Waited};
pub use room::{Client, Counters, Hold, Next, Room, Waiter};
pub use waits::{CLASSES, Waits};
