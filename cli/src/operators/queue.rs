//! The locks that have waiters.

use super::ask;
use super::fields::{Fields, list};
use super::unanswered::Unanswered;
use rlock_client::Master;
use std::cmp::Reverse;
use std::time::Duration;

/// The queue of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Longest queue first, at most `count` (1 to 10,000). Only locks of the client's database that its user may read.
pub async fn queues(masters: &[Master], count: usize) -> Result<Vec<Queue>, Unanswered> {
    let answers = ask::of_each(masters, &["RLOCK.QUEUES", "COUNT", &count.to_string()]).await?;
    let queues = answers.into_iter().map(|(_, answer)| list(answer, Queue::read)).collect::<Option<Vec<_>>>();
    let mut queues = queues.ok_or(Unanswered::Nonsense)?.concat();
    queues.sort_by_key(|queue| Reverse((queue.waiters, queue.oldest_wait)));
    queues.truncate(count);
    Ok(queues)
}

impl Queue {
    fn read(mut fields: Fields) -> Option<Self> {
        Some(Self {
            key: fields.bytes("key")?,
            waiters: fields.number("waiters")?,
            oldest_wait: fields.time("oldest-wait-ms").unwrap_or_default(),
            served: fields.number("served")?,
        })
    }
}
