//! The slots of a cluster: which one a key is in, and which node owns it, as the nodes tell.

use crate::link::fault::Fault;
use crate::link::node::Node;
use redis::{ErrorKind, FromRedisValue, RedisError, Value};
use std::sync::Arc;

pub(super) const SLOTS: u16 = 16_384;

pub(super) struct SlotRange {
    pub first: u16,
    pub last: u16,
    /// `host:port`.
    pub owner: Arc<str>,
}

pub(super) async fn as_seen_by(node: Arc<Node>) -> Result<Vec<SlotRange>, Fault> {
    let answer = node.send(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let Value::Array(ranges) = answer else { return Err(no_owner()) };
    let ranges: Vec<_> = ranges.into_iter().filter_map(|range| slot_range(range, &node)).collect();
    // A node that was just forgotten, or not met yet, owns no slots and knows of no other node.
    if ranges.is_empty() { Err(no_owner()) } else { Ok(ranges) }
}

/// `[first, last, [host, port, …], replicas …]`. A node that does not know its own name leaves the host empty.
fn slot_range(range: Value, seen_by: &Node) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let mut parts = parts.into_iter();
    let (first, last) = (u16::from_redis_value(parts.next()?).ok()?, u16::from_redis_value(parts.next()?).ok()?);
    let Value::Array(master) = parts.next()? else { return None };
    let mut master = master.into_iter();
    let host: Option<String> = FromRedisValue::from_redis_value(master.next()?).ok()?;
    let port: u16 = FromRedisValue::from_redis_value(master.next()?).ok()?;
    let address = format!("{}:{port}", host.unwrap_or_default());
    Some(SlotRange { first, last, owner: Arc::from(seen_by.full_address(&address)) })
}

/// The slot of a key: of what is between its first `{` and the next `}`, if there is anything, else of all of it.
pub(super) fn slot_of(key: &[u8]) -> usize {
    let hashed = match key.iter().position(|byte| *byte == b'{') {
        Some(open) => match key[open + 1..].iter().position(|byte| *byte == b'}') {
            Some(length @ 1..) => &key[open + 1..open + 1 + length],
            _ => key,
        },
        None => key,
    };
    usize::from(crc16::State::<crc16::XMODEM>::calculate(hashed) % SLOTS)
}

pub(super) fn no_owner() -> Fault {
    let what = "no node is known to own the slot";
    Fault::NotNow(RedisError::from((ErrorKind::ClusterConnectionNotFound, what)))
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    /// What `CLUSTER KEYSLOT` says of them.
    #[test]
    fn slots_are_those_of_the_server() {
        for (key, slot) in [("123456789", 12_739), ("foo", 12_182), ("{foo}.bar", 12_182), ("a{}b", 13_694), ("", 0)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"x{foo}y{bar}"), slot_of(b"foo"));
        assert_eq!(slot_of(b"{"), slot_of(b"{"));
    }
}
