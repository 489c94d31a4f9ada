//! What a lock is and how it changes: pure decisions, with no server in sight.
//!
//! A decision looks at a lock through [`Record`], which answers a few questions about the keys that hold it, and
//! returns a [`Decision`]: the answer for the client, and the [`Effects`] that make it true. Nothing here reads a
//! clock, touches a key or knows how an answer is spelled on the wire, so every rule can be tested with a map and a
//! number for the time.
//!
//! - [`exclusive`]: plain locks
//! - [`read_write`]: the two sides of a read-write lock
//! - [`release`], [`renew`]: the commands that serve either kind, by what the key holds
//! - [`waiting`]: who waits, until when, and who is served next
//! - [`Sight`]: a lock with all its holders, for people
//! - [`names`]: the keys and channels that belong to a lock
#![forbid(unsafe_code)]

mod acquire;
mod decimal;
mod effect;
mod exclusive;
pub mod names;
mod read_write;
mod record;
mod refusal;
mod release;
mod renew;
mod sight;
mod time;
pub mod waiting;

pub use acquire::{Acquire, Acquired, Ahead, Kind, acquire, check_wait, left_ms};
pub use decimal::decimal;
pub use effect::{CompanionEffect, Decision, Effects, Field, KeyEffect, Unlock};
pub use record::{Mode, Observed, ReadWrite, Record, Side};
pub use refusal::Refusal;
pub use release::{Release, Released, release};
pub use renew::{Renewed, renew};
pub use sight::{BROKEN_MAX, Breaking, Holding, READ_HOLDS_SHOWN_MAX, Sight};
pub use time::{Expiry, Lease, UnixMs};
pub use waiting::{
    Alarm, Alarms, CLASSES, Client, Counters, Granted, Hold, LockId, LockName, Next, QueueFull, Queued, Queues, Room,
    Ticket, Waited, Waiter, Waits, serve,
};

/// The longest holder, in bytes.
pub const HOLDER_LEN_MAX: usize = 512;

/// The most read holds one holder may have on one lock. Each is a key of its own, so renewing or dropping them all is
/// this much work in one command, and the server does nothing else meanwhile.
pub const READ_HOLDS_MAX: i64 = 10_000;

/// The most read holds that one command looks at, over all holders, to find the longest lease among them.
pub const READ_HOLDS_SCANNED_MAX: i64 = 256;

/// Among so many readers all are looked at whenever one leaves. Among more, only where the leaver may be the one whose
/// lease is the lock's.
const READERS_FEW: usize = 16;

/// One hold more, unless the count cannot say so.
fn one_more(count: i64) -> Result<i64, Refusal> {
    count.checked_add(1).ok_or(Refusal::TooManyHolds)
}

/// The token for this grant, read before anything is written, so that a counter that cannot count refuses the grant.
fn token_for(record: &impl Record, want: Acquire) -> Result<Option<i64>, Refusal> {
    want.fenced.then(|| record.next_token()).transpose()
}
