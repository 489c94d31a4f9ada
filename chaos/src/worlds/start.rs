//! How each world starts.

use super::calm::within;
use super::{Node, Stage, World, WorldKind};
use crate::history::Moment;
use crate::server_clock::ServerClock;
use rlock_testing::network::{Order, Proxy};
use rlock_testing::{Cluster, Server, Watched, free_port};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A script counts as busy after this many ms. Protected mode is off, because connections come from another loopback
/// address than the servers'.
const EVERYWHERE: [&str; 4] = ["--lua-time-limit", "20", "--protected-mode", "no"];

/// Replicas are asked often, so that a missing one is noticed soon.
const FOLLOWING: [&str; 2] = ["--repl-ping-replica-period", "1"];

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// How long a node is silent before it counts as dead: longer than a freeze.
const NODE_TIMEOUT_MS: &str = "2000";

/// How far the clocks of the first, third and fifth server are ahead, if failovers alone are played. So the first failover
/// is to a server that is behind: leases that it has heard of last longer there, and its tokens begin lower.
const CLOCKS_APART_MS: i64 = 1_000;

/// Another build of the module, for every second node; in a cluster for one of each master and its replica.
pub const OTHER_MODULE: &str = "RLOCK_OTHER_MODULE";

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The address from which a node of a cluster connects, so that a proxy can tell the nodes apart.
pub fn address_of(place: usize) -> IpAddr {
    [127, 0, 1, u8::try_from(place + 1).expect("a few")].into()
}

impl World {
    /// # Panics
    /// If the servers cannot be started: without them there is nothing to play on.
    pub fn start(Stage { kind, play }: Stage, directory: &Path) -> Self {
        let mut world = Self { kind, play, directory: directory.to_owned(), ..Self::default() };
        match kind {
            WorldKind::Single => world.one_master(&[], 0, 2),
            WorldKind::Durable => world.one_master(&DURABLE, 0, 2),
            WorldKind::Replicated => world.one_master(&FOLLOWING, 1, 2),
            WorldKind::Sentinel => world.watched(),
            WorldKind::Cluster => world.cluster(),
        }
        within("no grace runs", || world.masters.iter().all(|place| !world.has_grace(*place))).expect("it ends");
        world.looked = Moment::now();
        world
    }

    fn one_master(&mut self, options: &[&str], replicas: usize, lines: usize) {
        for place in 0..=replicas {
            if self.play.is_failovers_alone() {
                self.links.push(Proxy::start().expect("a port on loopback"));
            }
            let link = self.links.get(place).map(|link| link.port.to_string());
            let announced = link.iter().flat_map(|port| ["--replica-announce-port", port]);
            self.add_node(&options.iter().copied().chain(announced).collect::<Vec<_>>());
            if let Some(link) = self.links.get(place) {
                link.obey(Order::Lead(self.nodes[place].port));
            }
        }
        self.follow(0).expect("the replicas follow");
        self.add_proxies(lines);
        self.make_master(0);
    }

    fn watched(&mut self) {
        const REPLICAS: usize = 2;
        // Two lines, so that there can be two masters for a while.
        self.one_master(&FOLLOWING, REPLICAS, 1 + usize::from(self.play.is_failovers_alone()));
        self.sentinels = Watched::sentinels_over(self.port_for_replicas(0), REPLICAS);
        if let Some(silent_ms) = self.play.silent_ms() {
            let set = format!("SENTINEL SET {} down-after-milliseconds {silent_ms}", Watched::NAME);
            for sentinel in &self.sentinels {
                assert_eq!(sentinel.client().say(&set).words(), ["OK"], "{set}");
            }
        }
    }

    /// The nodes announce the ports of their proxies to clients and to each other: so replication uses them as well.
    fn cluster(&mut self) {
        self.add_proxies(NAMES.len());
        let timeout = self.play.silent_ms().map_or(NODE_TIMEOUT_MS.to_owned(), |silent_ms| silent_ms.to_string());
        for place in 0..NAMES.len() {
            let (announced, bus) = (self.proxies[place].port.to_string(), free_port());
            let (announced_bus, from) = (self.lead_bus(place, bus).to_string(), address_of(place).to_string());
            let bus = bus.to_string();
            let options = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-announce-ip", "127.0.0.1"],
                ["--cluster-announce-port", &announced],
                ["--cluster-announce-bus-port", &announced_bus],
                ["--bind-source-addr", &from],
                ["--cluster-node-timeout", &timeout],
                ["--cluster-require-full-coverage", "no"],
                ["--cluster-replica-validity-factor", "0"],
                ["--cluster-allow-replica-migration", "no"],
                FOLLOWING,
            ];
            self.add_node(options.as_flattened());
            self.lead(place, place);
        }
        let servers: Vec<&Server> = self.nodes.iter().filter_map(|node| node.server.as_ref()).collect();
        let (masters, replicas) = servers.split_at(NAMES.len() / 2);
        Cluster::join(masters, replicas);
        self.set_masters((0..masters.len()).collect());
    }

    /// The port by which other nodes reach this node's bus: a proxy's, if faults may cut the node off.
    fn lead_bus(&mut self, place: usize, bus: u16) -> u16 {
        if !self.play.is_failovers_alone() {
            return bus;
        }
        self.links.push(Proxy::start().expect("a port on loopback"));
        self.links[place].obey(Order::Lead(bus));
        self.links[place].port
    }

    fn add_node(&mut self, options: &[&str]) {
        let name = NAMES[self.nodes.len()];
        let (own, settings) = (self.play.server_options(), self.play.settings());
        let options: Vec<_> = EVERYWHERE.iter().chain(own).chain(options).copied().collect();
        let clock = ServerClock::new(&self.directory.join(format!("time-{name}"))).expect("a file of ours");
        if self.play.is_failovers_alone() && self.nodes.len() % 2 == 0 {
            clock.iter().for_each(|clock| clock.step(CLOCKS_APART_MS));
        }
        let module = std::env::var_os(OTHER_MODULE).filter(|_| self.nodes.len() % 2 == 1).map(PathBuf::from);
        self.nodes.push(Node::start(name, &options, settings, module, clock));
    }

    fn add_proxies(&mut self, count: usize) {
        self.proxies.extend((0..count).map(|_| Proxy::start().expect("a port on loopback")));
    }
}
