//! The engine of rlock without a server: a keyspace in memory, on which it runs as it does in Redis and Valkey.
//!
//! - [`Keyspace`]: databases with hashes, sorted sets and strings, each key with its expiry, at one given time
//! - [`Plain`]: the plain commands that a decision's changes stand for
//! - [`View`]: a lock in the keyspace as one holder sees it
//! - [`Memory`]: the host of [`rlock_core::waiting::Engine`] on top of these
//! - [`Reference`]: a naive model of one lock, to judge the engine by
//! - [`Node`]: a server that knows the commands of rlock: words go in, replies come out
//!
//! Nothing in here reads a clock, waits or starts a thread: the caller passes the time, and collects the replies.
#![forbid(unsafe_code)]

mod host;
mod keyspace;
mod node;
mod plain;
mod record;
mod reference;
pub mod resp;

pub use host::{Answered, Client, Commit, HasUser, Limits, Memory, Selected, Watcher};
pub use keyspace::{Entry, Keyspace, Permits, Value};
pub use node::{Connection, Done, Node};
pub use plain::Plain;
pub use record::{Clocks, View};
pub use reference::{Reference, Reply};
