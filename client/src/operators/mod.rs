//! For the people on call: who holds a lock and who waits for it, where the queues are, and a lock that is broken by
//! force. Nothing here takes part in locking. Each question has a file of its own, with what is told of it.

mod ask;
mod break_lock;
mod by_holder;
mod fields;
mod inspection;
mod masters;
mod queue;
mod scan;
mod statistics;

pub use inspection::{HoldSide, Holder, Inspection, Waiter};
pub use queue::Queue;
pub use scan::{Held, Search, Step};
pub use statistics::Statistics;
