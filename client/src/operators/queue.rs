//! The locks that somebody waits for.

use super::ask;
use super::fields::{Fields, list};
use crate::error::Error;
use crate::link::Fault;
use crate::locks::Locks;
use std::cmp::Reverse;
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

impl Locks {
    /// The locks that somebody waits for, longest queue first, at most `count` of them (1 to 10,000). In a cluster
    /// every master is asked. Only locks of the client's database, and only those that its user may read.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if a master does not answer.
    pub async fn queues(&self, count: usize) -> Result<Vec<Queue>, Error> {
        let command = redis::cmd("RLOCK.QUEUES").arg("COUNT").arg(count).clone();
        let about = |fault: Fault| fault.into_error(b"queues");
        let answers = ask::read_from_masters(&self.shared, &command).await.map_err(about)?;
        let queues = answers.into_iter().map(|(_, answer)| list(answer, Queue::read)).collect::<Result<Vec<_>, _>>();
        let mut queues = queues.map_err(about)?.concat();
        queues.sort_by_key(|queue| Reverse((queue.waiters, queue.oldest_wait)));
        queues.truncate(count);
        Ok(queues)
    }
}

impl Queue {
    fn read(mut fields: Fields) -> Result<Self, Fault> {
        Ok(Self {
            key: fields.take("key")?,
            waiters: fields.take("waiters")?,
            oldest_wait: fields.take_time("oldest-wait-ms")?.unwrap_or_default(),
            served: fields.take("served")?,
        })
    }
}
