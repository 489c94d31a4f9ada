//! A Redis Cluster: each name has a slot, and each slot an owner, as the nodes tell.
//!
//! The routing is here and not the library's, since a wait needs a connection of its own to the slot's owner, and since
//! one dead node must not hold up what others are asked.

use crate::link::connection::Use;
use crate::link::fault::Fault;
use crate::link::node::{Limits, Node};
use crate::link::single_flight::SingleFlight;
use futures_util::future::select_ok;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOTS: u16 = 16_384;

/// How many seeds, and how many other nodes, are asked at once where the slots are. The first answer does.
const ASKED_AT_ONCE: usize = 8;

pub(crate) struct Cluster {
    /// What all nodes' addresses have in common: TLS, the user, the password.
    pattern: ConnectionInfo,
    limits: Limits,
    /// Asked where the slots are for as long as the client lives, whether or not they still own any.
    seeds: Vec<Arc<Node>>,
    map: Mutex<Map>,
    asking: SingleFlight,
}

struct Map {
    /// `host:port` of each slot's owner.
    owners: Vec<Option<Arc<str>>>,
    nodes: HashMap<Arc<str>, Arc<Node>>,
    /// Nodes that failed since the map was made. Only a request to one of them has to wait for a new map.
    stale: HashSet<String>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<ConnectionInfo>, limits: Limits) -> RedisResult<Self> {
        let Some(pattern) = seeds.first().cloned() else {
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a cluster needs at least one address")));
        };
        let seeds = seeds.into_iter().map(|seed| Node::at(seed, limits)).collect::<RedisResult<_>>()?;
        let map = Map { owners: vec![None; usize::from(SLOTS)], nodes: HashMap::new(), stale: HashSet::new() };
        Ok(Self { pattern, limits, seeds, map: Mutex::new(map), asking: SingleFlight::default() })
    }

    /// Its first seed's.
    pub(crate) fn name(&self) -> &str {
        self.seeds.first().map_or("", |seed| seed.name())
    }

    pub(crate) async fn owner(&self, key: &[u8]) -> Result<Arc<Node>, Fault> {
        let known = self.known_owner(key).filter(|address| !self.map().stale.contains(&**address));
        if let Some(node) = known.and_then(|address| self.node_at(&address)) {
            return Ok(node);
        }
        let learnt = self.learn().await;
        match self.known_owner(key).and_then(|address| self.node_at(&address)) {
            Some(node) => Ok(node),
            None => Err(learnt.err().unwrap_or_else(|| Fault::NotNow(no_owner()))),
        }
    }

    /// All owners of slots, as they are now.
    pub(crate) async fn owners(&self) -> Result<Vec<Arc<Node>>, Fault> {
        self.learn().await?;
        let owners: BTreeSet<_> = self.map().owners.iter().flatten().cloned().collect();
        Ok(owners.iter().filter_map(|address| self.node_at(address)).collect())
    }

    pub(crate) fn known_owner(&self, key: &[u8]) -> Option<Arc<str>> {
        self.map().owners.get(slot_of(key)).cloned().flatten()
    }

    /// The addresses of nodes whose connections have broken since this was asked the last time.
    pub(crate) fn broken_nodes(&self) -> Vec<Arc<str>> {
        let map = self.map();
        map.nodes.iter().filter(|(_, node)| node.has_broken()).map(|(address, _)| address.clone()).collect()
    }

    pub(crate) fn node_at(&self, address: &str) -> Option<Arc<Node>> {
        let mut map = self.map();
        if let Some(node) = map.nodes.get(address) {
            return Some(node.clone());
        }
        let node = Node::at(self.address(address)?, self.limits).ok()?;
        map.nodes.insert(Arc::from(address), node.clone());
        Some(node)
    }

    /// One slot is known at once; that others have moved as well is likely.
    pub(crate) fn moved(&self, key: &[u8], address: &str) {
        let mut map = self.map();
        if let Some(owner) = map.owners.get_mut(slot_of(key)) {
            *owner = Some(Arc::from(address));
        }
    }

    pub(crate) fn mark_stale(&self, node: &Node) {
        self.map().stale.insert(node.name().to_owned());
    }

    /// Asks the nodes where the slots are.
    pub(crate) async fn learn(&self) -> Result<(), Fault> {
        self.asking.run(self.ask_for_the_map()).await
    }

    async fn ask_for_the_map(&self) -> Result<(), Fault> {
        let mut asked: Vec<_> = self.seeds.iter().take(ASKED_AT_ONCE).cloned().collect();
        asked.extend(self.map().nodes.values().take(ASKED_AT_ONCE).cloned());
        let (slots, _) = select_ok(asked.into_iter().map(|node| Box::pin(slots_as_seen_by(node)))).await?;
        self.adopt(slots);
        Ok(())
    }

    fn adopt(&self, slots: Vec<SlotRange>) {
        let mut map = self.map();
        map.owners.fill(None);
        for SlotRange { first, last, owner } in slots {
            if let Some(owners) = map.owners.get_mut(usize::from(first)..=usize::from(last)) {
                owners.fill(Some(owner));
            }
        }
        let Map { owners, nodes, stale } = &mut *map;
        nodes.retain(|address, _| owners.iter().flatten().any(|owner| owner == address));
        stale.clear();
    }

    /// The pattern, with another host and port.
    fn address(&self, address: &str) -> Option<ConnectionInfo> {
        let (host, port) = address.rsplit_once(':')?;
        let (host, port) = (host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?);
        let address = match self.pattern.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Some(self.pattern.clone().set_addr(address))
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SlotRange {
    first: u16,
    last: u16,
    owner: Arc<str>,
}

async fn slots_as_seen_by(node: Arc<Node>) -> Result<Vec<SlotRange>, Fault> {
    let mut connection = node.connection(Use::Shared).await?;
    let answer = connection.send(redis::cmd("CLUSTER").arg("SLOTS"), Some(node.limits().answer)).await;
    if answer.as_ref().is_err_and(Fault::doubts_the_server) {
        node.discard(&connection);
    }
    let Value::Array(ranges) = answer? else { return Err(Fault::NotNow(no_owner())) };
    let ranges: Vec<_> = ranges.into_iter().filter_map(|range| slot_range(range, &node)).collect();
    // A node that was just forgotten, or not met yet, owns no slots and knows of no other node.
    if ranges.is_empty() { Err(Fault::NotNow(no_owner())) } else { Ok(ranges) }
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
    Some(SlotRange { first, last, owner: Arc::from(seen_by.seen(&address)) })
}

/// The slot of a key: of what is between its first `{` and the next `}`, if there is anything, else of all of it.
fn slot_of(key: &[u8]) -> usize {
    let hashed = match key.iter().position(|byte| *byte == b'{') {
        Some(open) => match key[open + 1..].iter().position(|byte| *byte == b'}') {
            Some(length @ 1..) => &key[open + 1..open + 1 + length],
            _ => key,
        },
        None => key,
    };
    usize::from(crc16::State::<crc16::XMODEM>::calculate(hashed) % SLOTS)
}

fn no_owner() -> RedisError {
    RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node is known to own the slot"))
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
