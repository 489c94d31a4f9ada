//! `rlock inspect`: shows a lock's holders and waiters.

use crate::address::Address;
use crate::arguments::{Inspect, Server};
use crate::exit;
use crate::failure::{Failure, say};
use crate::operators::{self, Answer, Inspection, Unanswered, Waiter};
use crate::table::{Form, Table};
use crate::{address, by_client, greeting, json, output, shown};
use rlock_client::{Kind, Locks};
use std::os::unix::ffi::OsStrExt;

/// How many waiters are counted by client: a server lists so many within some ms.
const COUNTED: usize = 1_000;

pub async fn inspect(args: &Inspect, server: &Server) -> Result<u8, Failure> {
    let (locks, at) = address::connect(server).await?;
    let key = args.key.as_bytes();
    let limit = args.limit.map_or(if args.json { 100 } else { 10 }, |limit| limit as usize);
    let asked = if args.json { limit } else { limit.max(COUNTED) };
    let mut lock = look(&locks, &at, key, asked).await?;
    let greeting = greeting::of_one(&at, &locks).await;
    lock.knows_waiters = !greeting.is_some_and(|greeting| greeting.is_replica);
    if args.json {
        output::print_json(&json::inspection(key, &lock).into())?;
    } else if is_known(&lock) {
        output::print(&text(key, &lock, limit, output::form()))?;
    } else if lock.knows_waiters {
        let more = lock.grace_left.map_or_else(|| "rlock ls --held lists held locks".to_owned(), shown::grace);
        say(&format!("{}: not held, and without waiters; {more}", shown::name(key)));
    }
    match lock.knows_waiters {
        true => Ok(if is_known(&lock) { 0 } else { exit::NOTHING_DONE }),
        false => Err(Failure::unanswered(&at, &Unanswered::OfAReplica)),
    }
}

pub async fn look(locks: &Locks, at: &Address, key: &[u8], limit: usize) -> Result<Inspection, Failure> {
    operators::inspect(locks, key, limit).await.map_err(|why| Failure::unanswered(at, &why))
}

/// Whether there is anything to show.
pub fn is_known(lock: &Inspection) -> bool {
    lock.kind.is_some() || lock.waiter_count > 0 || lock.answer.is_some()
}

/// Another program's hash of numbers looks like a plain lock, except that locks have a lease, and plain locks have no
/// second holder. Likewise a sorted set of future times looks like permits.
pub fn may_be_data(lock: &Inspection) -> bool {
    match lock.kind {
        Some(Kind::Plain) => lock.time_left.is_none() || lock.holder_count > 1,
        Some(Kind::Permits) => lock.time_left.is_none(),
        _ => false,
    }
}

/// What would be deleted, if it is data.
pub fn data(lock: &Inspection) -> String {
    let known = lock.holders.iter().map(|holder| format!("{}={}", shown::name(&holder.holder), holder.count));
    let left = lock.holder_count.saturating_sub(lock.holders.len());
    let more = (left > 0).then(|| format!("{left} more"));
    let of = if lock.kind == Some(Kind::Permits) { "sorted set" } else { "hash" };
    format!("the {of} with {}", known.chain(more).collect::<Vec<_>>().join(", "))
}

/// With at most `limit` holders and waiters.
pub fn text(key: &[u8], lock: &Inspection, limit: usize, form: Form) -> String {
    let mut text = headline(key, lock) + "\n";
    if let Some(left) = lock.grace_left {
        text += &(shown::grace(left) + "\n");
    }
    let (holders, waiters) = (holders(lock, limit), waiters(lock, limit));
    if !holders.is_empty() {
        text += &format!("\n{}", holders.text(form));
    }
    text += &more(lock.holder_count, lock.holders.len().min(limit), "holders");
    if !waiters.is_empty() {
        text += &format!("\n{}", waiters.text(form));
    }
    text += &more(lock.waiter_count, lock.waiters.len().min(limit), "waiters");
    if lock.waiters.len() > limit {
        text += &format!("\n{}", by_client::text(lock, form));
    }
    text
}

fn headline(key: &[u8], lock: &Inspection) -> String {
    let kind = match lock.kind {
        Some(Kind::Permits) => format!("{} taken", permits(lock.holder_count)),
        kind => kind.map_or("not held", json::kind).to_owned(),
    };
    let mut parts = vec![format!("{}: {kind}", shown::name(key))];
    if lock.kind == Some(Kind::Permits) {
        parts.extend(lock.time_left.map(|left| format!("the last one ends in {}", shown::time(left))));
    } else if lock.kind.is_some() {
        parts.push(match lock.time_left {
            Some(left) => format!("lease ends in {}", shown::time(left)),
            None => "no lease: it stays until it is released".to_owned(),
        });
    }
    parts.push(match lock.knows_waiters {
        true => format!("{} waiting", lock.waiter_count),
        false => "its waiters are not known here".to_owned(),
    });
    parts.extend(lock.fencing_token.map(|token| format!("last token {token}")));
    parts.extend(lock.answer.map(answer));
    parts.join(", ")
}

fn answer(Answer { bytes, time_left }: Answer) -> String {
    match time_left {
        Some(left) => format!("an answer of {bytes} B for {} more", shown::time(left)),
        None => format!("an answer of {bytes} B that does not end"),
    }
}

fn permits(count: usize) -> String {
    if count == 1 { "1 permit".to_owned() } else { format!("{count} permits") }
}

fn holders(lock: &Inspection, limit: usize) -> Table<4> {
    let mut table = Table::new(["HOLDER", "SIDE", "COUNT", "LEASE LEFT"], &[(0, 12)]);
    for holder in lock.holders.iter().take(limit) {
        let left = shown::time_or(holder.time_left, "-");
        table.push([shown::name(&holder.holder), holder.side.word().to_owned(), holder.count.to_string(), left]);
    }
    table
}

fn waiters(lock: &Inspection, limit: usize) -> Table<4> {
    let mut table = Table::new(["WAITER", "SIDE", "WAITED", "GIVES UP IN"], &[(0, 12)]);
    for waiter in lock.waiters.iter().take(limit) {
        let cells = [
            shown::name(&waiter.holder),
            side(waiter),
            shown::time(waiter.waited),
            shown::time_or(waiter.gives_up_in, "never"),
        ];
        table.push_with(cells, place(waiter));
    }
    table
}

/// The side that it waits for. Each waiter for a permit has its own limit.
fn side(waiter: &Waiter) -> String {
    let side = waiter.side.word();
    waiter.limit.map_or_else(|| side.to_owned(), |limit| format!("{side} of {limit}"))
}

/// Longer tickets than this are cut: a line has 80 columns, and the JSON has the whole ticket.
const TICKET_MAX: usize = 16;

/// Where the waiter runs, so that an operator can find it.
fn place(waiter: &Waiter) -> Vec<String> {
    let unattended = if waiter.attended { "" } else { "unattended: " };
    let session = waiter.session.as_ref().map(|session| format!("session {}", shown::name(session)));
    let ticket =
        waiter.ticket.as_ref().map(|ticket| format!("ticket {}", shown::cut(&shown::name(ticket), TICKET_MAX)));
    let client = match (waiter.client_id, &waiter.address) {
        (Some(client), Some(address)) => format!("client {client} at {}", shown::name(address.as_bytes())),
        (Some(client), None) => format!("client {client}"),
        (None, _) => "no connection".to_owned(),
    };
    let keys = waiter.keys.map(|keys| format!("waits for {keys} keys"));
    let mut place: Vec<_> = keys.into_iter().chain(session).chain(ticket).chain([client]).collect();
    place[0].insert_str(0, unattended);
    place
}

fn more(all: usize, shown: usize, what: &str) -> String {
    match all.checked_sub(shown) {
        None | Some(0) => String::new(),
        Some(left) => format!("… and {left} {what} more: --limit shows up to 10000\n"),
    }
}

/// The first holder, and the number of other holders.
pub fn first_holder(lock: &Inspection) -> Option<String> {
    let first = shown::name(&lock.holders.first()?.holder);
    Some(match lock.holder_count {
        0 | 1 => first,
        count => format!("{first} +{}", count - 1),
    })
}
