//! Operators' queries: a lock's holders and waiters, queues, held locks, a server's counters; and changes by force.
//! Nothing here acquires a lock. The client only sends the commands; each query has its own file with its reply.

mod ask;
mod change;
pub mod fields;
mod inspection;
mod queue;
mod scan;
mod sessions;
mod statistics;
mod unanswered;

pub use change::{break_lock, release_of, renew_of};
pub use inspection::{Answer, HoldSide, Holder, Inspection, Waiter, inspect, known};
pub use queue::{Queue, queues};
pub use scan::{Search, held};
pub use sessions::{Session, end_session, sessions};
pub use statistics::{Statistics, grace_left, statistics};
pub use unanswered::Unanswered;
