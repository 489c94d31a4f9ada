//! Replies of RLOCK.INSPECT and RLOCK.QUEUES, as far as an observer needs them.

use crate::history::{Holding, Moment, Sample, Side, Waiting, WaitsBy};
use rlock_testing::Reply;

/// None if it is an error: the lock is elsewhere, the server is loading, the key is no lock.
pub fn sample(reply: &Reply, (asked, answered): (Moment, Moment), server: &str, lock: &str) -> Option<Sample> {
    Some(Sample {
        asked,
        answered,
        server: server.to_owned(),
        lock: lock.to_owned(),
        ttl_ms: number(reply, "ttl-ms")?,
        holders: each(reply, "holders", holding)?,
        waiters: each(reply, "waiters", waiting)?,
    })
}

/// The locks with waiters.
pub fn queues(reply: &Reply) -> Option<Vec<String>> {
    let Reply::List(queues) = reply else { return None };
    queues.iter().map(|queue| text(queue, "key")).collect()
}

fn holding(entry: &Reply) -> Option<Holding> {
    Some(Holding {
        holder: text(entry, "holder")?,
        side: side(entry)?,
        count: number(entry, "count")?,
        ttl_ms: number(entry, "ttl-ms"),
    })
}

fn waiting(entry: &Reply) -> Option<Waiting> {
    Some(Waiting {
        holder: text(entry, "holder")?,
        side: side(entry)?,
        limit: number(entry, "limit").and_then(|limit| limit.try_into().ok()).unwrap_or_default(),
        locks: number(entry, "keys")?.try_into().ok()?,
        by: waits_by(entry)?,
        waited_ms: number(entry, "waited-ms")?,
    })
}

fn waits_by(entry: &Reply) -> Option<WaitsBy> {
    let (connection, is_attended) = (number(entry, "client-id"), number(entry, "attended") != Some(0));
    let by_ticket = text(entry, "ticket").map(|name| WaitsBy::Ticket { name, connection, is_attended });
    by_ticket.or_else(|| connection.map(WaitsBy::Client))
}

fn side(entry: &Reply) -> Option<Side> {
    match text(entry, "side")?.as_str() {
        "exclusive" => Some(Side::Plain),
        "read" => Some(Side::Read),
        "write" => Some(Side::Write),
        "permit" => Some(Side::Permit),
        _ => None,
    }
}

fn each<T>(map: &Reply, name: &str, read: impl Fn(&Reply) -> Option<T>) -> Option<Vec<T>> {
    let Reply::List(entries) = field(map, name)? else { return None };
    entries.iter().map(read).collect()
}

fn text(map: &Reply, name: &str) -> Option<String> {
    let Reply::Text(text) = field(map, name)? else { return None };
    Some(text.clone())
}

fn number(map: &Reply, name: &str) -> Option<i64> {
    let Reply::Int(number) = field(map, name)? else { return None };
    Some(*number)
}

/// A field of a map that is written as a flat list.
fn field<'a>(map: &'a Reply, name: &str) -> Option<&'a Reply> {
    let Reply::List(flat) = map else { return None };
    flat.chunks_exact(2).find(|pair| matches!(&pair[0], Reply::Text(it) if it == name)).map(|pair| &pair[1])
}
