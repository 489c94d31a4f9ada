//! The keys of a lock: read as a record, and written, replicated and announced.

pub mod followers;
mod kept;
mod record;
mod write;

pub use record::{LockRecord, answer, fencing_token, left_ms, left_until_next, take_snapshot};
pub use write::{PAUSED, is_ours};
