//! Waiting for a lock: which clients wait, until when, and which is served next. Without a server.
//!
//! - [`Queues`]: the waiters of each lock, first in first out
//! - `Waiter`: a blocked client, or a ticket of a session
//! - [`SessionId`]: a process that waits by tickets, whose outcomes are [`Event`]s
//! - [`Queued`], [`SessionSummary`]: waiters and sessions for people on call
//! - [`Engine`]: everything that is kept in memory of waiters, and the work to be done for them
//! - `claims`: a waiter's place in the queue of each of its locks
//! - `grace`: how long no waiter is served after a failover or a restart, and which ones are served at its end
//! - [`WaitHistogram`]: how long waiters waited
//! - `once`: the answer of one holder's work, for all callers of ONCE
//! - [`commands`]: what the commands do, and `serve`: which waiter is next; both over a [`Host`] that is the server or a test

mod agenda;
mod breaking;
mod claims;
pub mod commands;
mod engine;
mod grace;
mod host;
mod index;
mod once;
mod outbox;
mod overview;
mod queue;
mod serve;
mod sessions;
mod statistics;
mod store;
mod tickets;
mod turn;
mod upkeep;
mod waiter;

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Seeded at random like the standard hash, since clients choose the names; but a hand-over uses these maps some twenty
/// times, and the standard hash would take a tenth of its time.
type Map<K, V> = HashMap<K, V, RandomState>;

pub use agenda::{Cancelled, TicketNames};
pub use engine::Engine;
pub use host::{
    Act, Answer, Cause, GraceNews, Host, Kept, Note, OwnText, Paused, Permission, Purpose, Text, Trigger, User,
    WaitsFor,
};
pub use outbox::{EVENTS_UNREAD_MAX, Event};
pub use overview::{Queued, SeenRecipient, SessionSummary};
pub use queue::{LockId, LockName, QUEUES_SKIPPED_MAX, QueueFull, QueueSummary, Queues, Ticket};
pub use serve::{CHECKED_MAX, OVERTAKEN_MAX};
pub use sessions::{Most, NoSession};
pub use statistics::{CLASSES, Counters, WaitHistogram};
pub use tickets::{Call, Use};
pub use waiter::{AskedBy, Names, SessionId};
