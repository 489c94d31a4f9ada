//! The keys and channels that belong to a lock, by Redisson's rule.
//!
//! Redisson asks only whether the lock's name contains the byte `{`, not whether it has a hash tag: it uses such a name
//! unchanged, and puts any other in braces. So the keys derived from a few names are in another hash slot:
//! [`derived_keys_share_the_slot`] finds out.
//!
//! A name is built from pieces in a buffer on the stack, since every command that frees a lock needs one.

use super::Unlock;
use std::borrow::Cow;

/// Names up to this length are built on the stack.
const ON_THE_STACK: usize = 256;

/// Calls `use_name` with the channel on which this unlock of `key` is published.
pub fn channel<R>(key: &[u8], unlock: Unlock, use_name: impl FnOnce(&[u8]) -> R) -> R {
    match unlock {
        Unlock::Plain => prefixed(b"redisson_lock__channel", key, use_name),
        Unlock::Read | Unlock::Write => prefixed(b"redisson_rwlock", key, use_name),
    }
}

/// Calls `use_name` with the key that counts the fencing tokens of `key`.
pub fn fencing_counter<R>(key: &[u8], use_name: impl FnOnce(&[u8]) -> R) -> R {
    prefixed(b"redisson_lock_token", key, use_name)
}

/// Calls `use_name` with the key that stores the answer of the work under `key`.
pub fn answer<R>(key: &[u8], use_name: impl FnOnce(&[u8]) -> R) -> R {
    prefixed(b"rlock_answer", key, use_name)
}

/// Calls `use_name` with the key that carries the lease of this holder's read hold number `index`.
pub fn read_hold<R>(key: &[u8], holder: &[u8], index: i64, use_name: impl FnOnce(&[u8]) -> R) -> R {
    // Most holders hold once, and formatting costs more than all the rest.
    let one_digit = usize::try_from(index).ok().and_then(|index| b"0123456789".get(index..=index));
    let digits = one_digit.map_or_else(|| index.to_string().into_bytes().into(), Cow::Borrowed);
    let (open, close) = braces(key);
    with_joined(&[open, key, close, b":", holder, b":rwlock_timeout:", &digits], use_name)
}

/// Calls `use_name` with the field that counts this holder's write holds.
pub fn write_field<R>(holder: &[u8], use_name: impl FnOnce(&[u8]) -> R) -> R {
    with_joined(&[holder, WRITE_SUFFIX], use_name)
}

/// The ending of a field that counts write holds. No holder's name may end like this.
pub const WRITE_SUFFIX: &[u8] = b":write";

/// The field for the mode of a read-write lock. No holder may have this name.
pub const MODE_FIELD: &[u8] = b"mode";

/// Whether the keys derived from `key` hash to the same cluster slot as `key` itself: whether they have the same tag.
/// (Two different tags can share a slot by chance; a name that works by chance is refused all the same.)
#[must_use]
pub fn derived_keys_share_the_slot(key: &[u8]) -> bool {
    match key.iter().position(|&byte| byte == b'{') {
        // Used unchanged, so the tag must be complete and not empty, else the server hashes the whole name.
        Some(open) => key.iter().skip(open).position(|&byte| byte == b'}').is_some_and(|length| length > 1),
        // Put in braces, so the whole name becomes the tag, up to the first closing brace.
        None => !key.is_empty() && !key.contains(&b'}'),
    }
}

fn prefixed<R>(prefix: &[u8], key: &[u8], use_name: impl FnOnce(&[u8]) -> R) -> R {
    let (open, close) = braces(key);
    with_joined(&[prefix, b":", open, key, close], use_name)
}

fn braces(key: &[u8]) -> (&'static [u8], &'static [u8]) {
    if key.contains(&b'{') { (b"", b"") } else { (b"{", b"}") }
}

fn with_joined<R>(pieces: &[&[u8]], use_name: impl FnOnce(&[u8]) -> R) -> R {
    let mut buffer = [0; ON_THE_STACK];
    let mut free = &mut buffer[..];
    for piece in pieces {
        let Some((place, rest)) = std::mem::take(&mut free).split_at_mut_checked(piece.len()) else {
            return use_name(&pieces.concat());
        };
        place.copy_from_slice(piece);
        free = rest;
    }
    let length = ON_THE_STACK.saturating_sub(free.len());
    use_name(buffer.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &[u8]) -> String {
        String::from_utf8_lossy(name).into_owned()
    }

    #[test]
    fn a_name_without_an_opening_brace_is_put_in_braces() {
        assert_eq!(channel(b"n", Unlock::Plain, text), "redisson_lock__channel:{n}");
        assert_eq!(channel(b"n", Unlock::Read, text), "redisson_rwlock:{n}");
        assert_eq!(channel(b"n", Unlock::Write, text), "redisson_rwlock:{n}");
        assert_eq!(answer(b"n", text), "rlock_answer:{n}");
        assert_eq!(fencing_counter(b"n", text), "redisson_lock_token:{n}");
        assert_eq!(read_hold(b"n", b"h", 12, text), "{n}:h:rwlock_timeout:12");
        assert_eq!(read_hold(b"n}", b"h", 1, text), "{n}}:h:rwlock_timeout:1");
        assert_eq!(write_field(b"h", text), "h:write");
    }

    #[test]
    fn a_name_with_an_opening_brace_anywhere_is_used_as_it_is() {
        for name in ["{n}", "a{n}b", "foo{", "a{}b", "}{"] {
            assert_eq!(channel(name.as_bytes(), Unlock::Plain, text), format!("redisson_lock__channel:{name}"));
            assert_eq!(channel(name.as_bytes(), Unlock::Write, text), format!("redisson_rwlock:{name}"));
            assert_eq!(fencing_counter(name.as_bytes(), text), format!("redisson_lock_token:{name}"));
            assert_eq!(read_hold(name.as_bytes(), b"h", 1, text), format!("{name}:h:rwlock_timeout:1"));
        }
    }

    #[test]
    fn names_longer_than_the_stack_buffer_are_whole() {
        for length in [ON_THE_STACK - 30, ON_THE_STACK - 22, ON_THE_STACK - 21, ON_THE_STACK, 100_000] {
            let name = "x".repeat(length);
            assert_eq!(fencing_counter(name.as_bytes(), text), format!("redisson_lock_token:{{{name}}}"));
        }
    }

    #[test]
    fn the_slot_is_shared_exactly_when_the_tag_is() {
        // The server's rule: the bytes between the first `{` and the first `}` after it, if there are any.
        fn hashed(key: &[u8]) -> &[u8] {
            let tag = key.iter().position(|&b| b == b'{').and_then(|open| {
                let rest = &key[open + 1..];
                rest.iter().position(|&b| b == b'}').map(|close| &rest[..close])
            });
            tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
        }
        for name in ["n", "", "{n}", "a{n}b", "foo{", "a{}b", "a}b", "}{", "}{n}", "{}{n}", "{n}{m}", "{{n}}"] {
            let name = name.as_bytes();
            let same = |derived: &[u8]| hashed(derived) == hashed(name);
            let shared = fencing_counter(name, same) && read_hold(name, b"h}", 1, same);
            assert_eq!(derived_keys_share_the_slot(name), shared, "{}", text(name));
        }
    }
}
