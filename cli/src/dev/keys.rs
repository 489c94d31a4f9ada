//! The few plain commands that tests need as well as locks: to inspect keys, and to delete other clients' locks.

use super::clients::wrong_arity;
use super::server::Done;
use rlock_core::lock::Expiry;
use rlock_core::waiting::Host;
use rlock_sim::resp::Replies;
use rlock_sim::{Entry, Node, Plain, Value};

/// Runs the command if it is one of these.
pub fn run(node: &mut Node, name: &str, words: &[Vec<u8>], replies: &mut Replies) -> Option<Done> {
    match (name, &words[1..]) {
        ("DEL" | "UNLINK", keys @ [_, ..]) => {
            let deleted = keys.iter().filter(|key| node.change(key, Plain::Del { key })).count();
            replies.number(deleted);
        }
        ("SET", [key, value]) => {
            node.change(key, Plain::Set { key, value, at: None });
            replies.simple("OK");
        }
        ("PERSIST", [key]) => {
            let had_end = entry(node, key).is_some_and(|entry| entry.expiry != Expiry::Never);
            replies.number(u8::from(had_end && node.change(key, Plain::Persist { key })));
        }
        ("EXPIRE", [key, time]) => expire(node, key, time, 1_000, replies),
        ("PEXPIRE", [key, time]) => expire(node, key, time, 1, replies),
        ("FLUSHALL", []) | ("FLUSHALL", [_]) => flush(node, None, replies),
        ("FLUSHDB", []) | ("FLUSHDB", [_]) => {
            let database = node.host.database();
            flush(node, Some(database), replies);
        }
        ("EXISTS", keys @ [_, ..]) => {
            let there = keys.iter().filter(|key| entry(node, key).is_some()).count();
            replies.number(there);
        }
        ("TYPE", [key]) => _ = replies.simple(entry(node, key).map_or("none", |entry| kind(&entry.value))),
        ("PTTL" | "TTL" | "PEXPIRETIME" | "EXPIRETIME", [key]) => _ = replies.number(time(node, name, key)),
        ("KEYS", [pattern]) => {
            let keys = names(node, pattern);
            keys.iter().fold(replies.array(keys.len()), |replies, key| replies.bulk(key));
        }
        ("SCAN", [_, options @ ..]) => scan(node, options, replies),
        ("DBSIZE", []) => _ = replies.number(names(node, b"*").len()),
        ("GET", [key]) => get(node, key, replies),
        ("HGETALL" | "HLEN", [key]) => of_hash(node, key, replies, |fields, replies| {
            if name == "HLEN" {
                replies.number(fields.len());
            } else {
                let replies = replies.map(fields.len());
                fields.iter().fold(replies, |replies, (field, value)| replies.bulk(field).bulk(value));
            }
        }),
        ("HGET" | "HEXISTS", [key, field]) => hash_field(node, name, (key, field), replies),
        ("ZCARD", [key]) => count_members(node, key, replies),
        (known, _) if KNOWN.contains(&known) => wrong_arity(known, replies),
        _ => return None,
    }
    Some(Done::Replied)
}

const KNOWN: [&str; 22] = [
    "DEL",
    "UNLINK",
    "SET",
    "PERSIST",
    "EXPIRE",
    "PEXPIRE",
    "FLUSHALL",
    "FLUSHDB",
    "EXISTS",
    "TYPE",
    "PTTL",
    "TTL",
    "PEXPIRETIME",
    "EXPIRETIME",
    "KEYS",
    "SCAN",
    "GET",
    "HGETALL",
    "HLEN",
    "HGET",
    "HEXISTS",
    "ZCARD",
];

fn entry(node: &Node, key: &[u8]) -> Option<Entry> {
    node.host.keyspace.borrow().get(node.host.database(), key).cloned()
}

fn time(node: &Node, name: &str, key: &[u8]) -> i64 {
    let now = node.now();
    entry(node, key).map_or(-2, |Entry { expiry, .. }| match (expiry, name) {
        (Expiry::Never, _) => -1,
        (Expiry::At(at), "PTTL") => (at - now).max(0),
        (Expiry::At(at), "TTL") => ((at - now).max(0) + 500) / 1_000,
        (Expiry::At(at), "PEXPIRETIME") => at,
        (Expiry::At(at), _) => at / 1_000,
    })
}

/// In one step, whatever COUNT says.
fn scan(node: &Node, options: &[Vec<u8>], replies: &mut Replies) {
    let option = |name: &[u8]| {
        let mut pairs = options.chunks_exact(2);
        pairs.find(|pair| pair[0].eq_ignore_ascii_case(name)).map(|pair| &pair[1][..])
    };
    let wanted = option(b"TYPE").map(|kind| String::from_utf8_lossy(kind).to_lowercase());
    let mut keys = names(node, option(b"MATCH").unwrap_or(b"*"));
    keys.retain(|key| {
        let is = entry(node, key).map(|entry| kind(&entry.value));
        wanted.as_ref().is_none_or(|wanted| is == Some(wanted))
    });
    let replies = replies.array(2).bulk("0").array(keys.len());
    keys.iter().fold(replies, |replies, key| replies.bulk(key));
}

fn get(node: &Node, key: &[u8], replies: &mut Replies) {
    of_kind(node, key, replies, |value, replies| {
        match value {
            None => replies.nil(),
            Some(Value::Text(text)) => replies.bulk(text),
            Some(_) => return false,
        };
        true
    });
}

fn hash_field(node: &Node, name: &str, (key, field): (&[u8], &[u8]), replies: &mut Replies) {
    of_hash(node, key, replies, |fields, replies| {
        let value = fields.iter().find(|(name, _)| name == field).map(|(_, value)| value);
        if name == "HEXISTS" {
            replies.number(u8::from(value.is_some()));
        } else {
            replies.or_nil(value, |replies, value| _ = replies.bulk(value));
        }
    });
}

fn count_members(node: &Node, key: &[u8], replies: &mut Replies) {
    of_kind(node, key, replies, |value, replies| {
        match value {
            None => replies.number(0),
            Some(Value::SortedSet(permits)) => replies.number(permits.len()),
            Some(_) => return false,
        };
        true
    });
}

fn expire(node: &mut Node, key: &[u8], time: &[u8], unit_ms: i64, replies: &mut Replies) {
    let time = std::str::from_utf8(time).ok().and_then(|time| time.parse::<i64>().ok());
    let at = time.and_then(|time| time.checked_mul(unit_ms)?.checked_add(node.now()));
    let Some(at) = at else {
        replies.error(b"ERR value is not an integer or out of range");
        return;
    };
    let command = if at > node.now() { Plain::PExpireAt { key, at } } else { Plain::Del { key } };
    let has_changed = node.change(key, command);
    replies.number(u8::from(has_changed));
}

fn flush(node: &mut Node, database: Option<i32>, replies: &mut Replies) {
    node.flush(database);
    replies.simple("OK");
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Hash(_) => "hash",
        Value::SortedSet(_) => "zset",
        Value::Text(_) => "string",
    }
}

fn names(node: &Node, pattern: &[u8]) -> Vec<Vec<u8>> {
    let keyspace = node.host.keyspace.borrow();
    let all = keyspace.entries(node.host.database()).map(|(key, _)| key);
    all.filter(|key| matches(pattern, key)).map(<[u8]>::to_vec).collect()
}

/// `read` returns whether the key is of its kind.
fn of_kind(node: &Node, key: &[u8], replies: &mut Replies, read: impl FnOnce(Option<&Value>, &mut Replies) -> bool) {
    let entry = entry(node, key);
    if !read(entry.as_ref().map(|entry| &entry.value), replies) {
        replies.error(b"WRONGTYPE Operation against a key holding the wrong kind of value");
    }
}

fn of_hash(node: &Node, key: &[u8], replies: &mut Replies, read: impl FnOnce(&[(Vec<u8>, Vec<u8>)], &mut Replies)) {
    of_kind(node, key, replies, |value, replies| {
        match value {
            None => read(&[], replies),
            Some(Value::Hash(fields)) => read(fields, replies),
            Some(_) => return false,
        }
        true
    });
}

/// Whether a name matches a pattern of `*`, `?` and single bytes, as in KEYS. Sets of bytes are not supported.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
        ([b'\\', byte, pattern @ ..], [first, name @ ..]) => byte == first && matches(pattern, name),
        ([byte, pattern @ ..], [first, name @ ..]) => byte == first && matches(pattern, name),
        _ => false,
    }
}
