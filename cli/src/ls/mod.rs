//! `rlock ls`: the locks that have waiters; with `--held` also those that are held.

mod find;
mod glance;

use crate::address::Way;
use crate::arguments::{Ls, Server};
use crate::failure::{Failure, say};
use crate::inspect::first_holder;
use crate::operators::{self, Unanswered};
use crate::table::Table;
use crate::{address, exit, greeting, json, output, shown};
use find::{Found, Row, find};
pub use glance::{Glance, held_at_a_glance};
use rlock_client::Locks;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

pub async fn ls(args: &Ls, server: &Server) -> Result<u8, Failure> {
    let (locks, at) = address::connect(server).await?;
    let greeting = greeting::of_one(&at, &locks).await;
    if greeting.as_ref().is_some_and(|greeting| greeting.is_replica) {
        return Err(Failure::unanswered(&at, &Unanswered::OfAReplica));
    }
    let found = find(args, &locks, at.way() == Way::Cluster).await.map_err(|why| Failure::unanswered(&at, &why))?;
    print(args, &found)?;
    if found.rows.is_empty() && found.missing.is_empty() && !args.json && output::is_watched() {
        say(&nothing(args, &locks, found.hidden).await);
    }
    if found.limited {
        say(&format!("there are more than these {}; --limit lists up to 10000", args.limit));
    }
    if greeting.is_some_and(|greeting| greeting.is_of_a_cluster) {
        say(&format!("{at} is one node of a cluster, and these are its locks alone: for all use {}", at.as_cluster()));
    }
    if let Some(left) = grace_left(&locks).await {
        say(&shown::grace(left));
    }
    found.missing.iter().for_each(|line| say(line));
    Ok(if found.missing.is_empty() { 0 } else { exit::UNAVAILABLE })
}

/// `None` also if this user may not know it.
async fn grace_left(locks: &Locks) -> Option<Duration> {
    operators::grace_left(&locks.masters().await.ok()?).await
}

fn print(args: &Ls, Found { rows, .. }: &Found) -> Result<(), Failure> {
    match (args.json, rows.is_empty(), args.held) {
        (true, ..) => output::print_json(&rows.iter().map(object).collect()),
        (_, true, _) => Ok(()),
        (_, _, true) => output::print(&with_holders(rows)),
        (_, _, false) => output::print(&of_queues(rows)),
    }
}

/// Why nothing is listed. It says that nothing is held only if that is known.
async fn nothing(args: &Ls, locks: &Locks, hidden: usize) -> String {
    let matches = if args.pattern == "*" { "" } else { " that matches" };
    match (args.held, hidden) {
        (true, 0) => format!("no lock{matches} is held"),
        (true, _) => format!("no lock{matches} is held that this user may look at"),
        (false, _) => {
            let held = held_at_a_glance(locks, args.pattern.as_bytes()).await;
            format!("no lock{matches} has waiters{}", glance::words(&held))
        }
    }
}

fn of_queues(rows: &[Row]) -> String {
    let mut table = Table::new(["KEY", "WAITERS", "OLDEST WAIT", "SERVED"], &[(0, 12)]);
    for queue in rows.iter().filter_map(|row| row.queue.as_ref()) {
        let oldest = shown::time(queue.oldest_wait);
        table.push([shown::name(&queue.key), queue.waiters.to_string(), oldest, queue.served.to_string()]);
    }
    table.text(output::form())
}

/// In a narrow terminal the holder is shortened before the key, because the user types the key next.
const HELD_YIELD: &[(usize, usize)] = &[(2, 20), (0, 20), (2, 12), (0, 12)];

fn with_holders(rows: &[Row]) -> String {
    let mut table = Table::new(["KEY", "KIND", "HOLDER", "LEASE LEFT", "WAITERS", "OLDEST WAIT"], HELD_YIELD);
    for Row { key, queue, lock } in rows {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.push([
            shown::name(key),
            or_dash(lock.as_ref().and_then(|lock| lock.kind).map(|kind| json::kind(kind).to_owned())),
            or_dash(lock.as_ref().and_then(first_holder)),
            or_dash(lock.as_ref().and_then(|lock| lock.time_left).map(shown::time)),
            queue.as_ref().map_or(0, |queue| queue.waiters).to_string(),
            or_dash(queue.as_ref().map(|queue| shown::time(queue.oldest_wait))),
        ]);
    }
    table.text(output::form())
}

fn object(row: &Row) -> Value {
    let mut object = row.queue.as_ref().map_or_else(|| json::named("key", &row.key), json::queue);
    if let Some(lock) = &row.lock {
        object.insert("lock".into(), json::inspection(&row.key, lock).into());
    }
    object.into()
}
