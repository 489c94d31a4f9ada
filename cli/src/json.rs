//! JSON for programs. Times are in ms. A name that is not UTF-8 is there as text with replaced bytes, and in full in a
//! second field, in hexadecimal.

use crate::operators::{Holder, Inspection, Queue, Session, Waiter};
use rlock_client::Kind;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

pub fn queue(queue: &Queue) -> Map<String, Value> {
    let mut object = named("key", &queue.key);
    object.insert("waiters".into(), queue.waiters.into());
    object.insert("oldest_wait_ms".into(), ms(queue.oldest_wait));
    object.insert("served".into(), queue.served.into());
    object
}

pub fn inspection(key: &[u8], lock: &Inspection) -> Map<String, Value> {
    let mut object = named("key", key);
    object.insert("kind".into(), json!(lock.kind.map(kind)));
    object.insert("time_left_ms".into(), optional_ms(lock.time_left));
    object.insert("holder_count".into(), lock.holder_count.into());
    object.insert("holders".into(), lock.holders.iter().map(holder).collect());
    object.insert("fencing_token".into(), lock.fencing_token.into());
    object.insert("answer_bytes".into(), json!(lock.answer.map(|answer| answer.bytes)));
    object.insert("answer_time_left_ms".into(), optional_ms(lock.answer.and_then(|answer| answer.time_left)));
    object.insert("waiter_count".into(), json!(lock.knows_waiters.then_some(lock.waiter_count)));
    let waiters = || lock.waiters.iter().map(waiter).collect::<Vec<_>>();
    object.insert("waiters".into(), json!(lock.knows_waiters.then(waiters)));
    object.insert("grace_left_ms".into(), optional_ms(lock.grace_left));
    object
}

fn holder(holder: &Holder) -> Value {
    let mut object = named("holder", &holder.holder);
    object.insert("side".into(), holder.side.word().into());
    object.insert("count".into(), holder.count.into());
    object.insert("time_left_ms".into(), optional_ms(holder.time_left));
    object.into()
}

fn waiter(waiter: &Waiter) -> Value {
    let mut object = named("holder", &waiter.holder);
    object.insert("side".into(), waiter.side.word().into());
    object.insert("limit".into(), json!(waiter.limit));
    object.insert("keys".into(), json!(waiter.keys));
    object.insert("client_id".into(), json!(waiter.client_id));
    object.insert("address".into(), json!(waiter.address));
    object.extend(named_or_null("session", waiter.session.as_deref()));
    object.extend(named_or_null("ticket", waiter.ticket.as_deref()));
    object.insert("attended".into(), waiter.attended.into());
    object.insert("waited_ms".into(), ms(waiter.waited));
    object.insert("gives_up_in_ms".into(), optional_ms(waiter.gives_up_in));
    object.into()
}

pub fn session(session: &Session) -> Value {
    let mut object = named("session", &session.name);
    object.insert("id".into(), session.id.into());
    object.insert("server".into(), json!(session.server));
    object.extend(named_or_null("user", session.user.as_deref()));
    object.insert("client_id".into(), json!(session.client_id));
    object.insert("address".into(), json!(session.address));
    object.insert("attended".into(), session.attended.into());
    object.insert("tickets".into(), session.tickets.into());
    object.insert("events".into(), session.events.into());
    object.insert("ends_in_ms".into(), optional_ms(session.ends_in));
    object.insert("bytes".into(), json!(session.bytes));
    object.into()
}

/// An object that begins with a name.
pub fn named(field: &str, bytes: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert(field.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        object.insert(format!("{field}_hex"), hexadecimal(bytes).into());
    }
    object
}

fn named_or_null(field: &str, bytes: Option<&[u8]>) -> Map<String, Value> {
    bytes.map_or_else(|| Map::from_iter([(field.to_owned(), Value::Null)]), |bytes| named(field, bytes))
}

pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "plain",
        Kind::ReadWrite => "read-write",
        Kind::Permits => "permits",
        _ => "unknown",
    }
}

fn optional_ms(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, ms)
}

fn ms(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
