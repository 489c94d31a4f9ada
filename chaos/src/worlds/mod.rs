//! The sets of servers that a round is played on. Clients reach every server by a proxy with a fixed port. So
//! neither a restart nor a failover changes an address, and the network can be made worse.

mod calm;
mod drained;
mod node;
mod stage;
mod start;
#[cfg(test)]
mod tests;

pub use node::{Node, Refusal, run_on};
pub use stage::{LONGEST_LEASE_MS, Play, Stage};
pub use start::OTHER_MODULE;

use crate::history::{Journal, Moment};
use crate::plan::{Address, Makeup};
use rlock_testing::network::{Order, Proxy};
use rlock_testing::{Server, Watched};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorldKind {
    /// One server, which forgets everything when it is killed.
    #[default]
    Single,
    /// One server, which forgets nothing that it has answered.
    Durable,
    /// A master and a replica.
    Replicated,
    /// A master and two replicas, and three sentinels.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
}

impl WorldKind {
    pub const ALL: [Self; 5] = [Self::Single, Self::Durable, Self::Replicated, Self::Sentinel, Self::Cluster];

    pub const WITH_REPLICAS: [Self; 3] = [Self::Replicated, Self::Sentinel, Self::Cluster];

    /// Whether one server at a time holds all locks.
    pub fn has_one_master(self) -> bool {
        matches!(self, Self::Single | Self::Durable | Self::Replicated | Self::Sentinel)
    }
}

#[derive(Default)]
pub struct World {
    pub kind: WorldKind,
    pub play: Play,
    pub nodes: Vec<Node>,
    sentinels: Vec<Server>,
    /// In a world with one master, all lead to it; otherwise each leads to the node at its place.
    pub proxies: Vec<Proxy>,
    /// The links between servers, and from sentinels to servers, if failovers alone are played. In a cluster, the nodes
    /// use the proxies, and only their bus leads through these links.
    pub links: Vec<Proxy>,
    /// The places of the known masters. In a world with one master it is the first.
    pub masters: Vec<usize>,
    /// The last moment when these were seen as the masters.
    looked: Moment,
    /// The names of the masters, for the observers.
    pub watched: Arc<Mutex<Vec<String>>>,
    /// Changes that were seen, and are not taken yet.
    pub changes: Vec<Change>,
    /// How much longer leases may last because clocks were set back.
    borrowed: Duration,
    /// Where logs are kept after a violation.
    directory: PathBuf,
}

/// Another server has become a master.
#[derive(Clone, Debug)]
pub struct Change {
    /// The last moment without the change.
    pub since: Moment,
    pub what: String,
    pub servers: Vec<String>,
}

impl World {
    pub fn address(&self) -> Address {
        let ports = || self.proxies.iter().map(|proxy| proxy.port).collect::<Vec<_>>();
        match self.kind {
            WorldKind::Single | WorldKind::Durable | WorldKind::Replicated => Address::Lines { ports: ports() },
            WorldKind::Sentinel => Address::Sentinels {
                ports: self.sentinels.iter().map(Server::port).collect(),
                name: Watched::NAME.to_owned(),
                lines: ports(),
            },
            WorldKind::Cluster => Address::Cluster { ports: ports() },
        }
    }

    pub fn makeup(&self) -> Makeup {
        match self.kind {
            // One of three masters has a third of the locks.
            WorldKind::Cluster if self.play.is_failovers_alone() => Makeup::of_failovers(60),
            WorldKind::Sentinel if self.play.is_failovers_alone() => Makeup::of_failovers(40),
            _ if self.play.is_failovers_alone() => Makeup::of_failovers(24),
            WorldKind::Single => Makeup::ORDINARY,
            // Each answer waits for the disk, or each change goes to a replica.
            WorldKind::Durable | WorldKind::Replicated => Makeup { cold: 1_000, ..Makeup::ORDINARY },
            WorldKind::Sentinel | WorldKind::Cluster => Makeup::SMALL,
        }
    }

    /// All servers by name, and their sockets, which bypass the network.
    pub fn sockets(&self) -> Vec<(String, PathBuf)> {
        self.nodes.iter().map(|node| (node.name.clone(), node.socket.clone())).collect()
    }

    /// The only master, or the first.
    pub fn master(&self) -> usize {
        self.masters[0]
    }

    pub fn replicas(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|place| !self.masters.contains(place)).collect()
    }

    /// Replicas that follow a master and have finished their first synchronization.
    pub fn replicas_of(&self, master: usize) -> Vec<usize> {
        let name = &self.nodes[master].name;
        let is_its = |node: &Node| node.follows() && self.master_of(node).is_some_and(|it| it.name == *name);
        self.replicas().into_iter().filter(|place| is_its(&self.nodes[*place])).collect()
    }

    /// The master that has that key, if one confirms it.
    pub fn owner_of(&self, key: &str) -> Option<usize> {
        if self.kind != WorldKind::Cluster {
            return Some(self.master());
        }
        // A server without the key answers with an error that names the owner.
        self.masters.iter().copied().find(|place| self.nodes[*place].run(&["EXISTS", key]).is_ok())
    }

    /// Makes that one the master, for clients as well.
    pub fn make_master(&mut self, place: usize) {
        self.set_masters(vec![place]);
        for proxy in 0..self.proxies.len() {
            self.lead(proxy, place);
        }
    }

    fn lead(&self, proxy: usize, place: usize) {
        self.proxies[proxy].obey(Order::Lead(self.nodes[place].port));
    }

    /// Two masters from now on: clients of the second line find the second one.
    pub fn divide(&mut self, first: usize, second: usize) {
        self.set_masters(vec![first, second]);
        self.lead(0, first);
        self.lead(1, second);
    }

    pub fn set_masters(&mut self, masters: Vec<usize>) {
        let names = masters.iter().map(|place| self.nodes[*place].name.clone()).collect();
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = names;
        self.masters = masters;
    }

    /// Sets a server's clock.
    pub fn step_clock(&mut self, place: usize, by_ms: i64) -> Result<(), String> {
        let clock = self.nodes[place].clock.as_ref().ok_or("its clock cannot be set")?;
        clock.step(by_ms);
        if by_ms < 0 {
            self.borrowed += Duration::from_millis(by_ms.unsigned_abs());
        }
        Ok(())
    }

    /// Returns the servers that have ended although no fault killed them.
    pub fn watch_for_deaths(&mut self, journal: &Journal) -> Vec<usize> {
        let mut dead = Vec::new();
        for place in 0..self.nodes.len() {
            if self.nodes[place].has_died() {
                let node = &self.nodes[place];
                journal.broken("no server dies", format!("server {}:\n{}", node.name, last_lines(&node.log())));
                dead.push(place);
            }
        }
        if !dead.is_empty() {
            self.keep_logs();
        }
        dead
    }

    /// Checks which servers are masters, if sentinels or the cluster decide on that, and redirects clients.
    pub fn look_around(&mut self) {
        let now = Moment::now();
        let masters = match self.kind {
            // While there are two masters, both are known.
            WorldKind::Sentinel if self.masters.len() > 1 => return,
            WorldKind::Sentinel => vec![self.master_by_sentinels().unwrap_or(self.master())],
            WorldKind::Cluster => self.masters_by_themselves(),
            _ => return,
        };
        let (since, before) = (std::mem::replace(&mut self.looked, now), self.masters.clone());
        if masters == before || masters.is_empty() {
            return;
        }
        match self.kind {
            WorldKind::Sentinel => self.make_master(masters[0]),
            _ => self.set_masters(masters.clone()),
        }
        let name = |place: &usize| self.nodes[*place].name.clone();
        let servers: Vec<_> = before.iter().filter(|it| !masters.contains(it)).map(name).collect();
        let new: Vec<_> = masters.iter().filter(|it| !before.contains(it)).map(name).collect();
        self.changes.push(Change { since, what: format!("{new:?} took over from {servers:?}"), servers });
    }

    /// Takes the changes that have ended. A replaced master may believe for a while that it is still a master, and
    /// serve clients that have not heard of it either.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let (lasting, over) = std::mem::take(&mut self.changes).into_iter().partition(|change| self.is_divided(change));
        self.changes = lasting;
        over
    }

    fn is_divided(&self, change: &Change) -> bool {
        let former = self.nodes.iter().enumerate().filter(|(_, node)| change.servers.contains(&node.name));
        former.filter(|(place, _)| !self.masters.contains(place)).any(|(_, node)| node.is_master().unwrap_or(false))
    }

    /// Makes the sentinels promote a replica, with these words added to the command.
    pub fn fail_over_by_sentinels(&self, words: &[&str]) -> Result<(), String> {
        let command = [&["SENTINEL", "FAILOVER", Watched::NAME], words].concat();
        Ok(run_on(&mut self.sentinels[0].client(), &command).map(drop)?)
    }

    pub fn all_sentinels_name(&self, place: usize) -> bool {
        self.sentinels.iter().all(|sentinel| self.named_by(sentinel) == Some(place))
    }

    /// The node that servers reach by this port: the node's own port, or that of a proxy that leads only to it.
    fn node_at(&self, port: u16) -> Option<usize> {
        let announced = if self.kind == WorldKind::Cluster { &self.proxies } else { &self.links };
        let by_proxy = || announced.iter().position(|proxy| proxy.port == port);
        self.nodes.iter().position(|node| node.port == port).or_else(by_proxy)
    }

    /// The port by which replicas reach that one.
    pub fn port_for_replicas(&self, place: usize) -> u16 {
        let is_cluster = self.kind == WorldKind::Cluster;
        self.links.get(place).filter(|_| !is_cluster).map_or(self.nodes[place].port, |link| link.port)
    }

    /// The proxy by which others reach that one.
    pub fn line_to(&self, place: usize) -> &Proxy {
        if self.kind == WorldKind::Cluster { &self.proxies[place] } else { &self.links[place] }
    }

    /// Cuts a node of a cluster off from all other nodes, while clients still reach it.
    pub fn cut_off_bus(&self, place: usize) {
        for (at, link) in self.links.iter().enumerate() {
            let orders =
                if at == place { Order::LOSE_ALL.to_vec() } else { vec![Order::LoseOf(start::address_of(place))] };
            orders.into_iter().for_each(|order| link.obey(order));
        }
    }

    pub fn heal_bus(&self) {
        self.links.iter().for_each(|link| link.obey(Order::Heal));
    }

    /// The master that the sentinels name, if it agrees.
    fn master_by_sentinels(&self) -> Option<usize> {
        let place = self.named_by(&self.sentinels[0])?;
        self.nodes[place].is_master().ok()?.then_some(place)
    }

    fn named_by(&self, sentinel: &Server) -> Option<usize> {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Watched::NAME];
        let reply = run_on(&mut sentinel.client(), &command).ok()?;
        let port: u16 = reply.words().get(1)?.parse().ok()?;
        self.node_at(port)
    }

    /// The nodes that report that they are masters. A node that does not answer keeps its role.
    fn masters_by_themselves(&self) -> Vec<usize> {
        let is_master = |place: &usize| self.nodes[*place].is_master().unwrap_or(self.masters.contains(place));
        (0..self.nodes.len()).filter(is_master).collect()
    }

    /// Copies what the servers have logged to the run's directory.
    pub fn keep_logs(&self) {
        for node in &self.nodes {
            // A missing log does not matter to the run.
            let _ = std::fs::write(self.directory.join(format!("server-{}.log", node.name)), node.log());
        }
    }
}

/// The end of a log, without the list of clients that a report of a crash has.
fn last_lines(log: &str) -> String {
    const LINES: usize = 80;
    let lines: Vec<_> = log.lines().filter(|line| !line.starts_with("id=")).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
