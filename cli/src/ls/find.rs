//! Finds the locks to list. A node of a cluster that does not reply must not hide the other nodes' locks.

use crate::arguments::Ls;
use crate::operators::{self, Inspection, Queue, Unanswered};
use crate::pattern;
use rlock_client::{Locks, Master};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use tokio::task::JoinSet;

/// The server's limit.
const QUEUES_MAX: usize = 10_000;

pub struct Row {
    pub key: Vec<u8>,
    pub queue: Option<Queue>,
    pub lock: Option<Inspection>,
}

#[derive(Default)]
pub struct Found {
    pub rows: Vec<Row>,
    /// There are more than these.
    pub limited: bool,
    /// What is missing, and why.
    pub missing: Vec<String>,
    /// How many hashes this user may not look at, which may be locks.
    pub hidden: usize,
}

/// From each master that replies. For a single server, its error is the result.
pub async fn find(args: &Ls, locks: &Locks, in_cluster: bool) -> Result<Found, Unanswered> {
    let mut looks = JoinSet::new();
    for master in locks.masters().await? {
        let (args, locks) = (args.clone(), locks.clone());
        looks.spawn(async move { (find_on(std::slice::from_ref(&master), &args, &locks).await, master) });
    }
    let (mut all, masters) = (Found::default(), looks.len());
    for (look, master) in looks.join_all().await {
        match look {
            Ok(found) => {
                all.rows.extend(found.rows);
                all.limited |= found.limited;
                all.hidden += found.hidden;
            }
            Err(error) if in_cluster && error.is_unavailable() && all.missing.len() + 1 < masters => {
                let (address, why) = (master.address(), error.reason());
                all.missing.push(format!("the node {address} does not answer ({why}): its locks are not shown"));
            }
            Err(error) => return Err(error),
        }
    }
    all.missing.sort();
    Ok(all.in_order(limit(args)))
}

async fn find_on(masters: &[Master], args: &Ls, locks: &Locks) -> Result<Found, Unanswered> {
    let (pattern, limit) = (args.pattern.as_bytes(), limit(args));
    let mut queues = operators::queues(masters, QUEUES_MAX).await?;
    queues.retain(|queue| pattern::matches(pattern, &queue.key));
    let mut limited = queues.len() > limit;
    let (mut held, mut hidden) = (HashMap::new(), 0);
    if args.held && !limited {
        let found = operators::held(locks, masters, pattern, limit).await?;
        (limited, hidden, held) = (found.limited, found.hidden, found.locks);
    }
    let mut found = Found { rows: rows(queues, held), limited, hidden, ..Found::default() }.in_order(limit);
    if args.held {
        look_at_the_others(locks, &mut found.rows).await?;
    }
    Ok(found)
}

fn limit(args: &Ls) -> usize {
    usize::try_from(args.limit).unwrap_or(usize::MAX)
}

impl Found {
    /// Locks with a queue come first, longest queue first; the others by name.
    fn in_order(mut self, limit: usize) -> Self {
        self.rows.sort_by(|one, other| {
            let by_queue = |row: &Row| Reverse(row.queue.as_ref().map(|queue| (queue.waiters, queue.oldest_wait)));
            by_queue(one).cmp(&by_queue(other)).then_with(|| one.key.cmp(&other.key))
        });
        self.limited |= self.rows.len() > limit;
        self.rows.truncate(limit);
        self
    }
}

fn rows(queues: Vec<Queue>, mut held: HashMap<Vec<u8>, Inspection>) -> Vec<Row> {
    let queued = queues.into_iter().map(|queue| Row {
        lock: held.remove(&queue.key),
        key: queue.key.clone(),
        queue: Some(queue),
    });
    let mut rows: Vec<_> = queued.collect();
    rows.extend(held.into_iter().map(|(key, lock)| Row { key, queue: None, lock: Some(lock) }));
    rows
}

/// Inspects the locks that the search did not reach, or that were not searched for.
async fn look_at_the_others(locks: &Locks, rows: &mut [Row]) -> Result<(), Unanswered> {
    let others: Vec<_> = rows.iter().filter(|row| row.lock.is_none()).map(|row| row.key.clone()).collect();
    let mut known = operators::known(locks, others).await?;
    for row in rows.iter_mut().filter(|row| row.lock.is_none()) {
        row.lock = known.remove(&row.key);
    }
    Ok(())
}
