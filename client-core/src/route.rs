//! The server of each lock: the single server, the master that sentinels name, or the owner of the name's slot in a
//! cluster. If it is unknown or in doubt, the client looks it up before it sends a request.
//!
//! Routing is not left to a library, because a wait needs a session with the slot's owner, and because a dead node must
//! not delay requests to others.

use super::fault::{Fault, What};
use super::session::Session;
use super::{Answer, CallerId, ConnectionId, Effect, Engine, Lane, NodeId, Reply};
use crate::address::{Address, Place};
use std::collections::HashSet;
use std::sync::Arc;

pub const NO_OWNER: &str = "no node of the cluster has this lock now: try later; redis-cli CLUSTER INFO tells more";

const SLOTS: u16 = 16_384;

pub(super) struct Node {
    pub address: Arc<Address>,
    connections: Vec<(Lane, ConnectionId)>,
    pub session: Option<Session>,
}

/// Where locks are.
pub enum Route {
    Single(NodeId),
    Sentinels {
        master: Option<NodeId>,
        is_stale: bool,
    },
    /// The owner of each slot, and the owners that failed since the last look-up: only requests to these have to wait.
    Cluster {
        owners: Vec<Option<NodeId>>,
        stale: HashSet<NodeId>,
    },
}

/// The reply to a look-up.
pub enum Learnt {
    /// In a cluster: first and last slot, and their owner.
    Slots(Vec<(u16, u16, Address)>),
    Master(Address),
}

impl Node {
    pub fn connections(&self) -> Vec<ConnectionId> {
        self.connections.iter().map(|(_, connection)| *connection).collect()
    }

    /// The connection in use for this lane.
    pub fn connection(&self, lane: Lane) -> Option<ConnectionId> {
        self.connections.iter().find(|(of, _)| *of == lane).map(|(_, connection)| *connection)
    }

    pub fn uses(&mut self, lane: Lane, connection: ConnectionId) {
        self.connections.push((lane, connection));
    }

    pub fn drop_connection(&mut self, connection: ConnectionId) {
        self.connections.retain(|(_, of)| *of != connection);
    }
}

impl Route {
    pub fn sentinels() -> Self {
        Self::Sentinels { master: None, is_stale: false }
    }

    pub fn cluster() -> Self {
        Self::Cluster { owners: vec![None; usize::from(SLOTS)], stale: HashSet::new() }
    }

    /// The server for this key. `None`: it has to be looked up.
    pub(super) fn node(&self, key: &[u8]) -> Option<NodeId> {
        match self {
            Self::Single(node) => Some(*node),
            Self::Sentinels { master, is_stale } => master.filter(|_| !is_stale),
            Self::Cluster { owners, stale } => {
                owners.get(slot_of(key)).copied().flatten().filter(|owner| !stale.contains(owner))
            }
        }
    }

    /// The node failed, or says that it is not the right one.
    fn doubt(&mut self, node: NodeId) {
        match self {
            Self::Single(_) => {}
            Self::Sentinels { master, is_stale } => *is_stale |= *master == Some(node),
            Self::Cluster { stale, .. } => _ = stale.insert(node),
        }
    }

    fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }
}

impl Engine {
    /// The server says that it is not the right one, or does not reply.
    pub(super) fn doubt(&mut self, node: NodeId, fault: &Fault) {
        self.route.doubt(node);
        // The name may lead to another server now, but only for a new connection.
        if fault.what == What::NotHere && matches!(self.route, Route::Single(_)) {
            self.retire_connections_to(node);
        }
    }

    /// Whether this node is known to be the key's only server. Only then do its events count without a renewal.
    pub(super) fn trusts(&self, key: &[u8], node: NodeId) -> bool {
        self.route.node(key) == Some(node)
    }

    pub fn node_at(&mut self, address: Address) -> NodeId {
        let known = self.nodes.iter().find(|(_, node)| node.address.place == address.place).map(|(id, _)| *id);
        known.unwrap_or_else(|| {
            let id = NodeId(self.next_id());
            let (connections, session) = Default::default();
            self.nodes.insert(id, Node { address: Arc::new(address), connections, session });
            id
        })
    }

    /// The node of a redirection, which may leave out the host if it is that of `from`.
    pub(super) fn redirected(&mut self, fault: &Fault, from: NodeId, key: &[u8]) -> Option<NodeId> {
        if !self.route.is_cluster() {
            return None;
        }
        let from_address = self.nodes.get(&from)?.address.clone();
        let address = elsewhere(&from_address, fault.redirection()?)?;
        let node = self.node_at(address);
        if let (What::Moved, Route::Cluster { owners, .. }) = (fault.what, &mut self.route) {
            // Only this slot is known to have moved. The next look-up finds the others.
            if let Some(owner) = owners.get_mut(slot_of(key)) {
                *owner = Some(node);
            }
        }
        Some(node)
    }

    pub(super) fn learns(&mut self, caller: CallerId) {
        if !self.route.is_cluster() && self.route.node(b"").is_some() {
            self.effects.push(Effect::Notify(caller, Answer::Replied(Ok(Reply::Nil))));
        } else {
            self.learning.push(caller);
            self.look_up();
        }
    }

    /// The answer to a look-up.
    pub(super) fn learnt(&mut self, answer: Result<Learnt, Fault>) {
        self.is_looking_up = false;
        let answer = answer.map_err(|fault| if self.was_served { fault.into_outage() } else { fault });
        let fault = match answer {
            Ok(Learnt::Master(address)) => {
                self.follow(address);
                None
            }
            Ok(Learnt::Slots(slots)) => {
                self.adopt(slots);
                None
            }
            Err(fault) => Some(fault),
        };
        for caller in self.learning.drain(..) {
            let known = fault.clone().map_or(Ok(Reply::Nil), Err);
            self.effects.push(Effect::Notify(caller, Answer::Replied(known)));
        }
        for errand in std::mem::take(&mut self.parked) {
            match (&fault, self.route.node(&errand.key)) {
                (_, Some(_)) => self.send(errand),
                (Some(fault), None) => self.fails(errand, fault.clone()),
                (None, None) => self.fails(errand, Fault::nowhere(NO_OWNER)),
            }
        }
    }

    /// A master may not know for seconds that it was replaced, and keeps granting and renewing. From now on none of its
    /// replies count, its waiters wait on the new master, and its holds are renewed there, or lost.
    fn follow(&mut self, address: Address) {
        let node = self.node_at(address);
        let Route::Sentinels { master, is_stale } = &mut self.route else { return };
        let before = master.replace(node);
        *is_stale = false;
        if let Some(old) = before.filter(|old| *old != node) {
            self.leave(old, &Fault::superseded());
            self.hasten_renewals(node);
        }
    }

    fn adopt(&mut self, slots: Vec<(u16, u16, Address)>) {
        let mut now_owned = vec![None; usize::from(SLOTS)];
        for (first, last, address) in slots {
            let node = self.node_at(address);
            if let Some(owned) = now_owned.get_mut(usize::from(first)..=usize::from(last)) {
                owned.fill(Some(node));
            }
        }
        let Route::Cluster { owners, stale } = &mut self.route else { return };
        *owners = now_owned;
        stale.clear();
        let left: Vec<_> = self.nodes.keys().filter(|id| !owners.contains(&Some(**id))).copied().collect();
        for node in left {
            self.leave(node, &Fault::broken());
        }
    }

    /// Sends nothing to this node any more.
    fn leave(&mut self, id: NodeId, why: &Fault) {
        let Some(node) = self.nodes.remove(&id) else { return };
        let connections: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.node == id)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in connections {
            self.effects.push(Effect::Close(connection));
            self.connection_ends(connection, why);
        }
        if let Some(session) = node.session {
            self.notify_all(session, why);
        }
    }

    /// Starts a look-up, unless one is under way.
    pub(super) fn look_up(&mut self) {
        if !std::mem::replace(&mut self.is_looking_up, true) {
            self.effects.push(Effect::LookUp);
        }
    }

    /// The addresses of nodes that may know the owners of slots.
    pub fn known(&self) -> Vec<Arc<Address>> {
        self.nodes.values().map(|node| node.address.clone()).collect()
    }

    /// The server's name for messages.
    pub(super) fn place_of(&self, node: NodeId) -> Option<Arc<str>> {
        self.nodes.get(&node).map(|node| node.address.place.to_string().into())
    }

    /// All servers that have locks.
    pub fn masters(&self) -> Vec<(NodeId, Arc<Address>)> {
        let masters: std::collections::BTreeSet<_> = match &self.route {
            Route::Single(node) => [*node].into(),
            Route::Sentinels { master, .. } => master.iter().copied().collect(),
            Route::Cluster { owners, .. } => owners.iter().flatten().copied().collect(),
        };
        masters.into_iter().filter_map(|id| Some((id, self.nodes.get(&id)?.address.clone()))).collect()
    }
}

/// This address with another `host:port`; with the same host if the place has none.
pub fn elsewhere(pattern: &Address, place: &str) -> Option<Address> {
    let (host, port) = place.rsplit_once(':')?;
    let (host, port) = (host.trim_matches(['[', ']']), port.parse().ok()?);
    let host = match (&pattern.place, host) {
        (Place::Tcp { host, .. }, "" | "?") => host.clone(),
        _ => host.to_owned(),
    };
    Some(Address::new(Place::Tcp { host, port }, pattern.access.clone()))
}

/// The slot of a key: of the text between its first `{` and the next `}` if that is not empty, else of all of it.
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
