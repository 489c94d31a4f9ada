//! What the people on call ask servers for: who holds a lock and who waits for it, where the queues are, what is held, what
//! a server counts; and what they change by force. Nothing here takes a lock. The client knows none of it but how to
//! send a command; each question has a file of its own, with what is told of it.

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
