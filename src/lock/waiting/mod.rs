//! Waiting for a lock: who waits, until when, and who is served next.
//!
//! - [`Queues`]: the waiters of each lock, first in first out
//! - [`Alarms`]: what is to be looked at when
//! - [`Room`]: all that is kept in memory of those who wait
//! - [`serve`]: who is served next, over a world that is the server's or a test's

mod alarms;
mod queue;
mod room;
pub mod serve;

pub use alarms::{Alarm, Alarms};
pub use queue::{LockName, QueueFull, Queues, Ticket};
pub use room::{Client, Counters, Hold, Next, Room, Waiter};
