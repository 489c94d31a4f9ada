//! What a server takes of memory for those who wait, with all that goes with it, connections above all: for clients
//! that it keeps, for the tickets of one session, and for subscribers of the channels on which releases are published.

use crate::batch::{Batch, Pipe};
use crate::contenders::{LONG_LEASE, Module};
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::memory::UNIT;
use crate::plan::Plan;
use crate::tickets::{DEADLINE_MS, For, Tickets};
use crate::waiters::{has_memory_for, told_by_info};
use crate::{progress, servers, session};
use rlock_testing::{Client, Crowd, Reply, make_room_for, wait_until};
use std::ops::Range;
use std::thread;

/// How many wait, where each has a connection of its own; and where all of them have one.
pub const CONNECTIONS: [usize; 2] = [1_000, 10_000];
pub const TICKETS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

pub struct Kind {
    pub id: &'static str,
    pub counts: &'static [usize],
    measure: fn(&[usize], &Plan) -> Result<Vec<f64>, String>,
}

pub const KINDS: [Kind; 5] = [
    Kind { id: "clients", counts: &CONNECTIONS, measure: of_clients },
    Kind { id: "tickets_one_lock", counts: &TICKETS, measure: |counts, _| Ok(of_tickets(For::OneLock, counts)) },
    Kind { id: "tickets_lock_each", counts: &TICKETS, measure: |counts, _| Ok(of_tickets(For::LockEach, counts)) },
    Kind { id: "subscribers", counts: &CONNECTIONS, measure: of_subscribers },
    Kind { id: "subscriptions", counts: &TICKETS, measure: |counts, _| Ok(of_subscriptions(counts)) },
];

impl Kind {
    /// As many as are measured by this plan.
    pub fn counts(&self, plan: &Plan) -> Vec<usize> {
        let most = if self.counts == CONNECTIONS { plan.many_waiters } else { plan.many_tickets };
        self.counts.iter().copied().filter(|count| *count <= most).collect()
    }

    /// What is said of so many.
    pub fn figure(&self, count: usize) -> String {
        format!("memory.waiting.{}.{count}", self.id)
    }
}

/// Bytes for all of them together.
pub fn measure(plan: &Plan, figures: &mut Figures) {
    for kind in &KINDS {
        progress::step(kind.id);
        let counts = kind.counts(plan);
        match (kind.measure)(&counts, plan) {
            Ok(bytes) => {
                counts.iter().zip(bytes).for_each(|(count, bytes)| figures.add(&kind.figure(*count), UNIT, bytes));
            }
            Err(reason) => figures.left_out.push(format!("memory of {}: {reason}", kind.id)),
        }
    }
}

/// Clients that wait for one lock.
fn of_clients(counts: &[usize], plan: &Plan) -> Result<Vec<f64>, String> {
    let server = servers::start(Module::Rlock, &[]);
    let mut client = server.client();
    assert_eq!(client.say(&format!("RLOCK.ACQUIRE orders:42 holder {LONG_LEASE}")), Reply::Nil);
    of_connections(&server, counts, plan, |crowd, first| {
        let all = first + crowd.size();
        for number in first..all {
            let holder = session::holder(number);
            let ask = format!("RLOCK.ACQUIRE orders:42 {holder} {LONG_LEASE} WAIT {DEADLINE_MS}");
            crowd.say(number - first, &ask);
        }
        wait_until("all wait", || told_by_info(&mut client, "rlock", "rlock_waiters") == all as f64);
    })
}

/// Processes each of which waits for the same lock's message.
fn of_subscribers(counts: &[usize], plan: &Plan) -> Result<Vec<f64>, String> {
    of_connections(&servers::start(Module::None, &[]), counts, plan, |crowd, _| {
        (0..crowd.size()).for_each(|number| crowd.say(number, &format!("SUBSCRIBE {}", channel(42))));
        assert_eq!(crowd.collect(crowd.size()), crowd.size(), "all have subscribed");
    })
}

/// With a connection each, which does what it waits by. What the server gives a new connection to begin with it takes
/// back after a while.
fn of_connections(
    server: &Guarded,
    counts: &[usize],
    plan: &Plan,
    mut begin: impl FnMut(&mut Crowd, usize),
) -> Result<Vec<f64>, String> {
    let most = counts.last().copied().unwrap_or(0);
    make_room_for(most)?;
    has_memory_for(most)?;
    let mut client = server.client();
    let (before, mut crowds, mut there) = (used(&mut client), Vec::new(), 0);
    let bytes = counts.iter().map(|&count| {
        let mut crowd = Crowd::connect(server, count - there);
        begin(&mut crowd, there);
        crowds.push(crowd);
        there = count;
        thread::sleep(plan.idle_settles);
        used(&mut client) - before
    });
    Ok(bytes.collect())
}

fn of_tickets(what: For, counts: &[usize]) -> Vec<f64> {
    let mut tickets = Tickets::prepare(what, counts.last().copied().unwrap_or(0));
    let before = used(&mut tickets.client);
    let bytes = counts.iter().map(|&count| {
        tickets.wait(count);
        used(&mut tickets.client) - before
    });
    bytes.collect()
}

/// One process that waits for the messages of many locks, by one connection.
fn of_subscriptions(counts: &[usize]) -> Vec<f64> {
    let server = servers::start(Module::None, &[]);
    let mut client = server.client();
    let before = used(&mut client);
    let (mut pipe, mut there) = (Pipe::to(&server), 0);
    let bytes = counts.iter().map(|&count| {
        for first in (there..count).step_by(SUBSCRIBED_AT_ONCE) {
            pipe.run(&subscribe(first..count.min(first + SUBSCRIBED_AT_ONCE)));
        }
        there = count;
        used(&mut client) - before
    });
    bytes.collect()
}

/// So few that neither the command nor its answer needs more than the room that each client has.
const SUBSCRIBED_AT_ONCE: usize = 100;

/// Lines of the answer to each channel of a SUBSCRIBE.
const SUBSCRIBED: usize = 6;

fn subscribe(locks: Range<usize>) -> Batch {
    let channels: Vec<_> = locks.map(channel).collect();
    let words: Vec<_> = ["SUBSCRIBE"].into_iter().chain(channels.iter().map(String::as_str)).collect();
    let mut batch = Batch::default();
    batch.add(&words);
    batch.commands = channels.len() * SUBSCRIBED;
    batch
}

fn channel(lock: usize) -> String {
    format!("redisson_lock__channel:{{orders:{lock}}}")
}

fn used(client: &mut Client) -> f64 {
    told_by_info(client, "memory", "used_memory")
}
