//! A lock that somebody waits for.

use super::fields::{Fields, list};
use crate::link::Fault;
use redis::Value;
use std::time::Duration;

/// The queue of one lock, as [`Locks::queues`](crate::Locks::queues) tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The lock's name.
    pub key: Vec<u8>,
    /// How many wait.
    pub waiters: u64,
    /// For how long the first one has been waiting.
    pub oldest_wait: Duration,
    /// How many of its waiters got the lock since the queue was last empty.
    pub served: u64,
}

impl Queue {
    pub(super) fn read_all(value: Value) -> Result<Vec<Self>, Fault> {
        list(value, Self::read)
    }

    fn read(mut fields: Fields) -> Result<Self, Fault> {
        Ok(Self {
            key: fields.take("key")?,
            waiters: fields.take("waiters")?,
            oldest_wait: fields.take_time("oldest-wait-ms")?.unwrap_or_default(),
            served: fields.take("served")?,
        })
    }
}
