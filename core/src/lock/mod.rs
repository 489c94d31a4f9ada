//! What a lock is and how it changes: pure decisions, without a server.
//!
//! A decision looks at a lock through [`Record`], which answers a few questions about the keys that hold it, and
//! returns a [`Decision`]: the client's answer, and the [`Changes`] to apply. Nothing here reads a clock,
//! touches a key or knows how an answer is spelled on the wire, so a test needs only a map and a number for the time.
//!
//! - [`acquire`], [`release`], [`renew`], [`answer`]: the commands, by what the key holds
//! - [`plain`]: plain locks; [`read_write`]: the two sides of a read-write lock; [`permits`]: several holders at once
//! - [`Grace`]: how long no lock gets a new holder after a failover
//! - [`hand_over()`]: a release and the next holder's grant as one step
//! - [`Plan`]: the changes of one step
//! - [`Snapshot`]: a lock with all its holders, for people; and what breaking it changes
//! - [`names`]: the keys and channels that belong to a lock

mod change;
mod decide;
mod grace;
pub mod names;
mod permits;
mod plain;
mod read_write;
mod record;
mod request;
mod snapshot;
mod token;

pub use change::{Change, Changes, Decision, Field, Holds, Plan, Unlock};
pub use decide::{HandOver, acquire, answer, hand_over, release, renew};
pub use grace::{Grace, longer_left};
pub use permits::{
    PERMIT_END_MAX, Permits, are_permits, count_entries, end_of_score, lowest_score, may_have_been_permits,
    score_of_end,
};
pub use record::{Mode, Observed, ReadWrite, Record, decimal};
pub use request::{
    Ahead, Busy, Effect, Expiry, Lease, Limit, Obstacle, Outcome, Refusal, Release, Released, Renewed, Side, UnixMs,
    Verdict, Wish,
};
pub use snapshot::{BROKEN_MAX, Breaking, Holding, Kind, Part, READ_HOLDS_SHOWN_MAX, Snapshot};

/// The longest holder, in bytes.
pub const HOLDER_LEN_MAX: usize = 512;

/// The maximum number of read holds of one holder on one lock. Each is a key of its own, so one command that renews or drops
/// all of them does this much work, and the server does nothing else meanwhile.
pub const READ_HOLDS_MAX: i64 = 10_000;

/// The maximum number of read holds that one command reads, over all holders, to find the longest lease among them.
pub const READ_HOLDS_SCANNED_MAX: i64 = 256;

/// With up to 16 readers, a release checks all of them. With more, it does so only if the lock's lease may be that of the
/// reader that leaves. One more than 16, because the hash's fields are counted, and `mode` is one of them.
const READERS_FEW: usize = 16 + 1;
