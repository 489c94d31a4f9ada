//! `rlock ls`: the locks that somebody waits for; with `--held` those that are held, too.

use crate::address::{Address, Way};
use crate::arguments::{Ls, Server};
use crate::failure::{Failure, say};
use crate::table::Table;
use crate::{address, advice, exit, json, nodes, output, pattern, shown};
use rlock_client::{Error, Inspection, Locks, Queue};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::task::JoinSet;

/// As many as the server tells of.
const QUEUES_MAX: usize = 10_000;

struct Row {
    key: Vec<u8>,
    queue: Option<Queue>,
    lock: Option<Inspection>,
}

#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    /// There are more than these.
    limited: bool,
    /// What is missing, and why.
    missing: Vec<String>,
}

pub async fn ls(wish: &Ls, server: &Server) -> Result<u8, Failure> {
    let (locks, at) = address::connect(server).await?;
    let found = match find(wish, &locks).await {
        Err(error) if at.way() == Way::Cluster && error.is_unavailable() => {
            find_on_each(wish, &at, server.connect_timeout).await.ok_or(error)
        }
        found => found,
    };
    let found = found.map_err(|error| Failure::of_the_server(&at, &error))?;
    print(wish, &found.rows)?;
    if found.limited {
        say(&format!("there are more than these {}; --limit lists up to 10000", wish.limit));
    }
    if nodes::is_one_of_several(&at, server.connect_timeout).await {
        say(&format!("{at} is one node of a cluster, and these are its locks alone: for all use {}", at.as_cluster()));
    }
    found.missing.iter().for_each(|line| say(line));
    Ok(if found.missing.is_empty() { 0 } else { exit::UNAVAILABLE })
}

async fn find(wish: &Ls, locks: &Locks) -> Result<Found, Error> {
    let (pattern, limit) = (wish.pattern.as_bytes(), limit(wish));
    let mut queues = locks.queues(QUEUES_MAX).await?;
    queues.retain(|queue| pattern::matches(pattern, &queue.key));
    let mut limited = queues.len() > limit;
    let mut held = HashMap::new();
    if wish.held && !limited {
        let found = locks.held(pattern, limit).await?;
        limited = found.limited;
        held.extend(found.locks);
    }
    let mut found = Found { rows: rows(queues, held), limited, missing: Vec::new() }.in_order(limit);
    if wish.held {
        look_at_the_others(locks, &mut found.rows).await?;
    }
    Ok(found)
}

/// What those masters of a cluster have that answer; nothing if none does.
async fn find_on_each(wish: &Ls, cluster: &Address, patience: Duration) -> Option<Found> {
    let mut looks = JoinSet::new();
    for master in nodes::masters(cluster, patience).await {
        let wish = wish.clone();
        looks.spawn(async move {
            let look = async { find(&wish, &master.open(patience).await?).await }.await;
            (master, look)
        });
    }
    let (mut all, masters) = (Found::default(), looks.len());
    for (master, look) in looks.join_all().await {
        match look {
            Ok(found) => {
                all.rows.extend(found.rows);
                all.limited |= found.limited;
            }
            Err(error) => {
                let why = advice::words(&error);
                all.missing.push(format!("the node {master} does not answer ({why}): its locks are not shown"));
            }
        }
    }
    all.missing.sort();
    (all.missing.len() < masters).then(|| all.in_order(limit(wish)))
}

fn limit(wish: &Ls) -> usize {
    usize::try_from(wish.limit).unwrap_or(usize::MAX)
}

impl Found {
    /// Those with a queue come first, longest queue first; the others by name.
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

/// Those that the look through the keys did not come to, or was not begun for.
async fn look_at_the_others(locks: &Locks, rows: &mut [Row]) -> Result<(), Error> {
    let mut looks = JoinSet::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| row.lock.is_none()) {
        let (locks, key) = (locks.clone(), row.key.clone());
        looks.spawn(async move { (place, locks.inspect(key, 1).await) });
    }
    for (place, look) in looks.join_all().await {
        match look {
            Ok(lock) => rows[place].lock = Some(lock),
            Err(error) if error.is_unavailable() => return Err(error),
            // By now it is no lock, or this user may not look at it any more.
            Err(_) => {}
        }
    }
    Ok(())
}

fn print(wish: &Ls, rows: &[Row]) -> Result<(), Failure> {
    match (wish.json, rows.is_empty(), wish.held) {
        (true, ..) => output::print_json(&rows.iter().map(object).collect()),
        (_, true, held) => {
            if output::is_terminal() {
                say(if held { "no lock is held" } else { "nobody waits for a lock; --held lists what is held" });
            }
            Ok(())
        }
        (_, _, true) => output::print(&with_holders(rows)),
        (_, _, false) => output::print(&of_queues(rows)),
    }
}

fn of_queues(rows: &[Row]) -> String {
    let mut table = Table::new(["KEY", "WAITERS", "OLDEST WAIT", "SERVED"]);
    for queue in rows.iter().filter_map(|row| row.queue.as_ref()) {
        let oldest = shown::time(queue.oldest_wait);
        table.push([shown::name(&queue.key), queue.waiters.to_string(), oldest, queue.served.to_string()]);
    }
    table.text(output::heading())
}

fn with_holders(rows: &[Row]) -> String {
    let mut table = Table::new(["KEY", "KIND", "HOLDER", "LEASE LEFT", "WAITERS", "OLDEST WAIT"]);
    for Row { key, queue, lock } in rows {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.push([
            shown::name(key),
            or_dash(lock.as_ref().and_then(|lock| lock.kind).map(|kind| json::kind(kind).to_owned())),
            or_dash(lock.as_ref().and_then(holder)),
            or_dash(lock.as_ref().and_then(|lock| lock.time_left).map(shown::time)),
            queue.as_ref().map_or(0, |queue| queue.waiters).to_string(),
            or_dash(queue.as_ref().map(|queue| shown::time(queue.oldest_wait))),
        ]);
    }
    table.text(output::heading())
}

/// The first holder, and how many there are beside it.
pub fn holder(lock: &Inspection) -> Option<String> {
    let first = shown::name(&lock.holders.first()?.holder);
    Some(match lock.holder_count {
        0 | 1 => first,
        count => format!("{first} +{}", count - 1),
    })
}

fn object(row: &Row) -> Value {
    let mut object = row.queue.as_ref().map_or_else(|| json::named("key", &row.key), json::queue);
    if let Some(lock) = &row.lock {
        object.insert("lock".into(), json::inspection(&row.key, lock).into());
    }
    object.into()
}
