//! A Redis Cluster: each name has a slot, and each slot an owner, as the nodes tell.
//!
//! The routing is here and not the library's, since those who wait need a session with the slot's owner, and since one
//! dead node must not hold up what others are asked.

use super::elsewhere;
use super::slots::{self, SLOTS, SlotRange, no_owner, slot_of};
use crate::link::fault::Fault;
use crate::link::manner::Manner;
use crate::link::node::Node;
use crate::link::single_flight::SingleFlight;
use crate::runtime::Thread;
use futures_util::future::select_ok;
use redis::{ConnectionInfo, ErrorKind, RedisError, RedisResult};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many seeds, and how many other nodes, are asked at once where the slots are. The first answer does.
const ASKED_AT_ONCE: usize = 8;

pub(crate) struct Cluster {
    /// What all nodes' addresses have in common: TLS, the user, the password.
    pattern: ConnectionInfo,
    manner: Manner,
    thread: Thread,
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
    pub(crate) fn new(seeds: Vec<ConnectionInfo>, manner: Manner, thread: &Thread) -> RedisResult<Self> {
        let Some(pattern) = seeds.first().cloned() else {
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a cluster needs at least one address")));
        };
        let seeds = seeds.into_iter().map(|seed| Node::at(seed, &manner, thread)).collect::<RedisResult<_>>()?;
        let map = Map { owners: vec![None; usize::from(SLOTS)], nodes: HashMap::new(), stale: HashSet::new() };
        let (thread, map, asking) = (thread.clone(), Mutex::new(map), SingleFlight::default());
        Ok(Self { pattern, manner, thread, seeds, map, asking })
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
            None => Err(learnt.err().unwrap_or_else(no_owner)),
        }
    }

    /// All owners of slots, as they are now.
    #[cfg(feature = "commands")]
    pub(crate) async fn owners(&self) -> Result<Vec<Arc<Node>>, Fault> {
        self.learn().await?;
        let owners: std::collections::BTreeSet<_> = self.map().owners.iter().flatten().cloned().collect();
        Ok(owners.iter().filter_map(|address| self.node_at(address)).collect())
    }

    pub(crate) fn known_owner(&self, key: &[u8]) -> Option<Arc<str>> {
        self.map().owners.get(slot_of(key)).cloned().flatten()
    }

    pub(super) fn trusts(&self, key: &[u8], node: &Node) -> bool {
        let map = self.map();
        let owner = map.owners.get(slot_of(key)).and_then(Option::as_ref);
        owner.is_some_and(|owner| **owner == *node.name()) && !map.stale.contains(node.name())
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
        let node = Node::at(elsewhere(&self.pattern, address)?, &self.manner, &self.thread).ok()?;
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
        let (slots, _) = select_ok(asked.into_iter().map(|node| Box::pin(slots::as_seen_by(node)))).await?;
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

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
