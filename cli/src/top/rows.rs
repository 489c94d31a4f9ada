//! Rows and sums from one look and the one before it.

use super::looks::Look;
use crate::inspect::first_holder;
use crate::operators::{Inspection, Queue, Statistics};
use crate::shown;
use rlock_client::Kind;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// A lock that has waiters, or is held.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Vec<u8>,
    pub waiters: u64,
    /// `None` without waiters.
    pub oldest_wait: Option<Duration>,
    /// Waiters that got it, per second. Not known from one look alone.
    pub rate: Option<f64>,
    /// First holder and next waiter, if the lock was looked at.
    known: Option<Known>,
    at: Instant,
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    lock: Inspection,
    /// When the first holder was first seen as such.
    since: Instant,
}

/// Of all locks together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub waiters: u64,
    pub locks: u64,
    /// The number of waiters with a ticket of a session.
    pub tickets: u64,
    pub sessions: u64,
    pub sessions_unattended: u64,
    /// The longest remaining grace of a server; 0: all grant.
    pub grace_left_ms: u64,
    pub grants: Option<f64>,
    pub hand_offs: Option<f64>,
    pub timeouts: Option<f64>,
}

/// What the next look is compared with.
pub struct Last {
    at: Instant,
    served: HashMap<Vec<u8>, u64>,
    counters: HashMap<String, [u64; 3]>,
    known: HashMap<Vec<u8>, Known>,
}

impl Row {
    pub fn holder(&self) -> Option<String> {
        first_holder(&self.known.as_ref()?.lock)
    }

    /// For how long the same holder has been seen. It may have held the lock before, or have released it in between.
    pub fn holder_for(&self) -> Option<Duration> {
        let known = self.known.as_ref().filter(|known| !known.lock.holders.is_empty())?;
        Some(self.at.saturating_duration_since(known.since))
    }

    pub fn lease_left(&self) -> Option<Duration> {
        self.known.as_ref()?.lock.time_left
    }

    pub fn kind(&self) -> Option<Kind> {
        self.known.as_ref()?.lock.kind
    }

    /// The next waiter.
    pub fn next(&self) -> Option<String> {
        Some(shown::name(&self.known.as_ref()?.lock.waiters.first()?.holder))
    }
}

pub fn read(look: Look, last: Option<&Last>) -> (Vec<Row>, Totals, Last) {
    let elapsed = last.map(|last| look.at.saturating_duration_since(last.at));
    let known = known(&look, last);
    let row = |key: &Vec<u8>| Row {
        key: key.clone(),
        waiters: 0,
        oldest_wait: None,
        rate: None,
        known: known.get(key).cloned(),
        at: look.at,
    };
    let queued = look.queues.iter().map(|queue| Row {
        waiters: queue.waiters,
        oldest_wait: Some(queue.oldest_wait),
        rate: rate(served_since(queue, last), elapsed),
        ..row(&queue.key)
    });
    let served: HashMap<_, _> = look.queues.iter().map(|queue| (queue.key.clone(), queue.served)).collect();
    let held = look.held.iter().flat_map(|held| held.locks.keys()).filter(|key| !served.contains_key(*key)).map(row);
    // A lock that was looked at separately may be free by now.
    let held = held.filter(|row| row.kind().is_some());
    let rows = queued.chain(held).collect();
    let totals = totals(&look.statistics, last, elapsed);
    let counters = look.statistics.iter().map(|it| (it.server.clone(), counters(it))).collect();
    (rows, totals, Last { at: look.at, served, counters, known })
}

/// The locks of this look, and from the last look those that this one skipped.
fn known(look: &Look, last: Option<&Last>) -> HashMap<Vec<u8>, Known> {
    let found = look.held.as_ref().map(|held| &held.locks);
    let served = look.queues.iter().filter(|queue| served_since(queue, last).is_some_and(|count| count > 0));
    let handed_on: HashSet<_> = served.map(|queue| &queue.key).collect();
    let keys = look.queues.iter().map(|queue| &queue.key).chain(found.iter().flat_map(|found| found.keys()));
    let of = |key: &Vec<u8>| {
        let before = last.and_then(|last| last.known.get(key));
        let seen = look.locks.get(key).or_else(|| found.and_then(|found| found.get(key)));
        let known = seen.map(|lock| {
            let same = before.filter(|before| is_held_as(lock, &before.lock) && !handed_on.contains(key));
            Known { lock: lock.clone(), since: same.map_or(look.at, |before| before.since) }
        });
        known.or_else(|| before.cloned())
    };
    keys.filter_map(|key| Some((key.clone(), of(key)?))).collect()
}

/// Whether the same holder has it, with the same fencing token.
fn is_held_as(one: &Inspection, other: &Inspection) -> bool {
    let first = |lock: &Inspection| lock.holders.first().map(|holder| (holder.holder.clone(), holder.side));
    first(one) == first(other) && one.fencing_token == other.fencing_token
}

/// A queue that was not there is new. A queue with a lower count than before was empty in between.
fn served_since(queue: &Queue, last: Option<&Last>) -> Option<u64> {
    let before = last?.served.get(&queue.key).copied().unwrap_or(0);
    Some(queue.served.checked_sub(before).unwrap_or(queue.served))
}

fn counters(statistics: &Statistics) -> [u64; 3] {
    ["grants", "hand_offs", "timeouts"].map(|name| statistics.number(name).unwrap_or(0))
}

fn totals(statistics: &[Statistics], last: Option<&Last>, elapsed: Option<Duration>) -> Totals {
    let sum = |name| statistics.iter().filter_map(|it| it.number(name)).sum();
    let since = |which: usize| {
        let grown = statistics.iter().map(|it| {
            let before = last?.counters.get(&it.server)?[which];
            // A server that was started again counts from 0.
            counters(it)[which].checked_sub(before)
        });
        grown.sum::<Option<u64>>()
    };
    let [grants, hand_offs, timeouts] = [0, 1, 2].map(|which| rate(since(which), elapsed));
    Totals {
        waiters: sum("waiters"),
        locks: sum("locks_with_waiters"),
        tickets: sum("tickets"),
        sessions: sum("sessions"),
        sessions_unattended: sum("sessions_unattended"),
        grace_left_ms: statistics.iter().filter_map(|it| it.number("grace_left_ms")).max().unwrap_or(0),
        grants,
        hand_offs,
        timeouts,
    }
}

fn rate(count: Option<u64>, elapsed: Option<Duration>) -> Option<f64> {
    let seconds = elapsed.map(|elapsed| elapsed.as_secs_f64()).filter(|seconds| *seconds > 0.0)?;
    count.map(|count| count as f64 / seconds)
}
