//! The line of an error, as a server sends it: a code, and a text behind it. Where one code stands for several things,
//! the text tells which; the phrases that tell are all here.

use crate::kind::Kind;
use redis::RedisError;

/// Code and text in one line, or what the system or the library says if no server has answered.
pub(crate) fn whole(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(text)) => format!("{code} {text}"),
        _ => error.to_string(),
    }
}

/// ERR, of a server without the module, or with an older one.
pub(crate) fn is_unknown_command(error: &RedisError) -> bool {
    has(error, "unknown command")
}

/// ERR, to a connection that is one too many.
pub(crate) fn is_full(error: &RedisError) -> bool {
    has(error, "max number of clients")
}

/// UNBLOCKED, sent to all that wait that wait when the server becomes a replica. An operator's CLIENT UNBLOCK has other
/// words.
pub(crate) fn is_a_role_change(error: &RedisError) -> bool {
    has(error, "state changed")
}

/// WRONGKIND: the kind that the lock is of.
pub(crate) fn kind(error: &RedisError) -> Option<Kind> {
    match error.code() {
        Some("WRONGKIND") if has(error, "is a plain lock") => Some(Kind::Plain),
        Some("WRONGKIND") if has(error, "is a read-write lock") => Some(Kind::ReadWrite),
        _ => None,
    }
}

fn has(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words))
}
