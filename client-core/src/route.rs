//! Which server a lock is on: the one server, the master that sentinels name, or the owner of the name's slot in a
//! cluster; as far as is known. What is not known, or in doubt, is looked up before anybody is asked.
//!
//! The routing is here and not a library's, since those who wait need a session with the slot's owner, and since one
//! dead node must not hold up what others are asked.

use super::fault::{Fault, What};
use super::session::Session;
use super::{Answer, CallerId, Effect, Engine, Lane, LineId, NodeId, Reply};
use crate::address::{Address, Place};
use std::collections::HashSet;
use std::sync::Arc;

pub const NO_OWNER: &str = "no node of the cluster has this lock now: try later; redis-cli CLUSTER INFO tells more";

const SLOTS: u16 = 16_384;

pub(super) struct Node {
    pub address: Arc<Address>,
    lines: Vec<(Lane, LineId)>,
    pub session: Option<Session>,
}

/// Where locks are.
pub enum Route {
    Single(NodeId),
    Sentinels {
        master: Option<NodeId>,
        is_stale: bool,
    },
    /// The owner of each slot; and those that failed since that was learnt: only a request to one of them has to wait.
    Cluster {
        owners: Vec<Option<NodeId>>,
        stale: HashSet<NodeId>,
    },
}

/// What servers say when they are asked where locks are.
pub enum Learnt {
    /// Of a cluster: first and last slot, and their owner.
    Slots(Vec<(u16, u16, Address)>),
    Master(Address),
}

impl Node {
    pub fn lines(&self) -> Vec<LineId> {
        self.lines.iter().map(|(_, line)| *line).collect()
    }

    /// The line that is in use for this lane.
    pub fn line(&self, lane: Lane) -> Option<LineId> {
        self.lines.iter().find(|(of, _)| *of == lane).map(|(_, line)| *line)
    }

    pub fn uses(&mut self, lane: Lane, line: LineId) {
        self.lines.push((lane, line));
    }

    pub fn uses_no_more(&mut self, line: LineId) {
        self.lines.retain(|(_, of)| *of != line);
    }
}

impl Route {
    pub fn sentinels() -> Self {
        Self::Sentinels { master: None, is_stale: false }
    }

    pub fn cluster() -> Self {
        Self::Cluster { owners: vec![None; usize::from(SLOTS)], stale: HashSet::new() }
    }

    /// The server to ask about this key. `None`: that is to be looked up.
    pub(super) fn node(&self, key: &[u8]) -> Option<NodeId> {
        match self {
            Self::Single(node) => Some(*node),
            Self::Sentinels { master, is_stale } => master.filter(|_| !is_stale),
            Self::Cluster { owners, stale } => {
                owners.get(slot_of(key)).copied().flatten().filter(|owner| !stale.contains(owner))
            }
        }
    }

    /// The node failed, or says that it is not the one to ask.
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
    /// The server says that it is not the one to ask, or does not answer.
    pub(super) fn doubt(&mut self, node: NodeId, fault: &Fault) {
        self.route.doubt(node);
        // The one name may lead to another server by now, which only a new connection finds.
        if fault.what == What::NotHere && matches!(self.route, Route::Single(_)) {
            self.retire_lines_to(node);
        }
    }

    /// Whether nobody but this node is the one to ask about the key, as far as is known. What it says without being asked
    /// counts only then.
    pub(super) fn trusts(&self, key: &[u8], node: NodeId) -> bool {
        self.route.node(key) == Some(node)
    }

    pub fn node_at(&mut self, address: Address) -> NodeId {
        let known = self.nodes.iter().find(|(_, node)| node.address.place == address.place).map(|(id, _)| *id);
        known.unwrap_or_else(|| {
            let id = NodeId(self.next_id());
            let (lines, session) = Default::default();
            self.nodes.insert(id, Node { address: Arc::new(address), lines, session });
            id
        })
    }

    /// The node of a redirection that another one tells: it leaves out the host where that is its own.
    pub(super) fn redirected(&mut self, fault: &Fault, told_by: NodeId, key: &[u8]) -> Option<NodeId> {
        if !self.route.is_cluster() {
            return None;
        }
        let teller = self.nodes.get(&told_by)?.address.clone();
        let address = elsewhere(&teller, fault.redirection()?)?;
        let node = self.node_at(address);
        if let (What::Moved, Route::Cluster { owners, .. }) = (fault.what, &mut self.route) {
            // That others have moved as well is likely.
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
        self.looks = false;
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

    /// A master that was replaced may not know it for seconds, and grants and renews as ever. From now on nothing that
    /// it says counts, those who wait there wait elsewhere, and what is held is renewed at the new one, or lost.
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

    /// The node is asked no more.
    fn leave(&mut self, id: NodeId, why: &Fault) {
        let Some(node) = self.nodes.remove(&id) else { return };
        let lines: Vec<_> = self.lines.iter().filter(|(_, line)| line.node == id).map(|(line, _)| *line).collect();
        for line in lines {
            self.effects.push(Effect::Close(line));
            self.line_ends(line, why);
        }
        if let Some(session) = node.session {
            self.all_are_told(session, why);
        }
    }

    /// Somebody has to know where things are: one look is enough for all who do.
    pub(super) fn look_up(&mut self) {
        if !std::mem::replace(&mut self.looks, true) {
            self.effects.push(Effect::LookUp);
        }
    }

    /// The addresses of nodes that may know where the slots are.
    pub fn known(&self) -> Vec<Arc<Address>> {
        self.nodes.values().map(|node| node.address.clone()).collect()
    }

    /// What a server is called where it is spoken of.
    pub(super) fn place_of(&self, node: NodeId) -> Option<Arc<str>> {
        self.nodes.get(&node).map(|node| node.address.place.to_string().into())
    }

    /// All servers that locks are on.
    pub fn masters(&self) -> Vec<(NodeId, Arc<Address>)> {
        let masters: std::collections::BTreeSet<_> = match &self.route {
            Route::Single(node) => [*node].into(),
            Route::Sentinels { master, .. } => master.iter().copied().collect(),
            Route::Cluster { owners, .. } => owners.iter().flatten().copied().collect(),
        };
        masters.into_iter().filter_map(|id| Some((id, self.nodes.get(&id)?.address.clone()))).collect()
    }
}

/// An address like this one, at another `host:port`; of the same host, if none is told.
pub fn elsewhere(pattern: &Address, place: &str) -> Option<Address> {
    let (host, port) = place.rsplit_once(':')?;
    let (host, port) = (host.trim_matches(['[', ']']), port.parse().ok()?);
    let host = match (&pattern.place, host) {
        (Place::Tcp { host, .. }, "" | "?") => host.clone(),
        _ => host.to_owned(),
    };
    Some(Address::new(Place::Tcp { host, port }, pattern.access.clone()))
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
