//! The keys of a lock: read as a record, written, replicated and announced.

pub mod announce;
pub mod followers;
mod kept;
mod publish;
mod record;
pub mod replicate;
mod restore;
mod snapshot;
mod write;

pub use record::LockRecord;
pub use snapshot::{fencing_token, left_ms, take_snapshot};
pub use write::PAUSED;
