//! How each world comes into being.

use super::tls::Certificate;
use super::{Node, World, WorldKind, node::steady_port};
use crate::history::Moment;
use crate::network::{Proxy, ServerClock};
use rlock_testing::{Cluster, Server, Watched};
use std::path::Path;

/// A script is called busy after so many ms, and the network, which comes from another loopback address than the
/// servers', is not kept out.
const EVERYWHERE: [&str; 4] = ["--lua-time-limit", "20", "--protected-mode", "no"];

/// Replicas are asked often, so that one that is gone is missed soon.
const FOLLOWING: [&str; 2] = ["--repl-ping-replica-period", "1"];

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// After how long a silent node is taken for dead: longer than any that is only frozen for a while is silent.
const NODE_TIMEOUT_MS: &str = "2000";

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl World {
    /// # Panics
    /// If the servers cannot be had: without them there is nothing to play on.
    pub fn start(kind: WorldKind, directory: &Path) -> Self {
        let mut world = Self { kind, directory: directory.to_owned(), ..Self::default() };
        if kind.has_two_lines() {
            world.certificate = Certificate::issue(directory).expect("files in a directory of ours");
        }
        match kind {
            WorldKind::Single => world.one_master(&[], 0, 2),
            WorldKind::Durable => world.one_master(&DURABLE, 0, 2),
            WorldKind::Replicated => world.one_master(&FOLLOWING, 1, 2),
            WorldKind::Sentinel => world.watched(),
            WorldKind::Cluster => world.cluster(),
        }
        world.looked = Moment::now();
        world
    }

    fn one_master(&mut self, options: &[&str], replicas: usize, lines: usize) {
        for _ in 0..=replicas {
            self.add_node(options);
        }
        self.follow(0).expect("the replicas follow");
        self.add_proxies(lines);
        self.make_master(0);
    }

    fn watched(&mut self) {
        const REPLICAS: usize = 2;
        self.one_master(&FOLLOWING, REPLICAS, 1);
        self.sentinels = Watched::sentinels_over(self.nodes[0].port, REPLICAS);
    }

    /// The nodes tell clients, and each other, the ports of their proxies: so replication goes by them as well.
    fn cluster(&mut self) {
        self.add_proxies(NAMES.len());
        for place in 0..NAMES.len() {
            let (announced, bus) = (self.proxies[place].port.to_string(), steady_port().to_string());
            let options = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-announce-ip", "127.0.0.1"],
                ["--cluster-announce-port", &announced],
                ["--cluster-announce-bus-port", &bus],
                ["--cluster-node-timeout", NODE_TIMEOUT_MS],
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

    fn add_node(&mut self, options: &[&str]) {
        let name = NAMES[self.nodes.len()];
        let options: Vec<_> = EVERYWHERE.iter().chain(options).copied().collect();
        let clock = ServerClock::new(&self.directory.join(format!("time-{name}"))).expect("a file of ours");
        self.nodes.push(Node::start(name, &options, clock, self.certificate.as_ref()));
    }

    fn add_proxies(&mut self, count: usize) {
        self.proxies.extend((0..count).map(|_| Proxy::start().expect("a port on loopback")));
    }
}
