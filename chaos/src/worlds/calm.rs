//! The end of all trouble: servers run with their initial settings, each set has one master which the others follow,
//! and the network works.

use super::{Node, Play, World, WorldKind};
use rlock_testing::network::Order;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long it may take until all follow and agree again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Undoes the settings that faults change.
const SETTINGS: [&str; 3] = ["CLIENT UNPAUSE", "CONFIG SET maxmemory 0", "CONFIG SET hz 10"];

/// A fault that removed a lock's lease did not mean to keep the lock.
const LEASE_OF_WHAT_HAS_NONE_MS: &str = "200";

pub const COUNTERS: &str = "redisson_lock_token:";

impl World {
    /// # Errors
    /// If a server does not come back, or does not agree with the others in time.
    pub fn calm(&mut self) -> Result<(), String> {
        for place in 0..self.nodes.len() {
            self.nodes[place].thaw();
            self.start_again(place)?;
        }
        for node in &self.nodes {
            quieten(node, self.play)?;
        }
        for proxy in self.proxies.iter().chain(&self.links) {
            proxy.obey(Order::Heal);
            proxy.obey(Order::CutSilenced);
        }
        if self.kind == WorldKind::Replicated {
            self.follow(self.master())?;
        }
        self.agree()?;
        if self.kind.has_one_master() {
            self.make_master(self.master());
        }
        if self.play.is_failovers_alone() {
            // No fault removes a lease here, and for a moment a master may not know yet that it has a replica again.
            return within("no grace runs", || self.masters.iter().all(|place| !self.has_grace(*place)));
        }
        for place in &self.masters {
            end_what_has_no_end(&self.nodes[*place])?;
        }
        Ok(())
    }

    /// Whether this server's locks get no new holder yet. True if it does not answer.
    pub fn has_grace(&self, place: usize) -> bool {
        !self.nodes[place].info("rlock", "rlock_grace_left_ms").is_ok_and(|left| left == "0")
    }

    /// Starts a server again that is down, as a replica if another one is the master.
    pub fn start_again(&mut self, place: usize) -> Result<(), String> {
        if self.nodes[place].is_up() {
            return Ok(());
        }
        let follows = self.kind.has_one_master() && place != self.master();
        let port = self.port_for_replicas(self.master()).to_string();
        let options: &[&str] = if follows { &["--replicaof", "127.0.0.1", &port] } else { &[] };
        self.nodes[place].restart(options)
    }

    /// Makes all other servers follow that one, and waits until they do.
    pub fn follow(&self, master: usize) -> Result<(), String> {
        if !self.nodes[master].is_master()? {
            self.nodes[master].say("REPLICAOF NO ONE")?;
        }
        let follow = format!("REPLICAOF 127.0.0.1 {}", self.port_for_replicas(master));
        for (_, node) in self.others(master) {
            node.say(&follow)?;
        }
        within("the replicas follow", || self.others(master).all(|(_, node)| node.follows()))
    }

    pub fn others(&self, master: usize) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(move |(place, _)| *place != master)
    }

    /// Waits until all servers name the same masters, if sentinels or the cluster decide on that.
    pub(super) fn agree(&mut self) -> Result<(), String> {
        match self.kind {
            WorldKind::Sentinel => self.agree_with_sentinels(),
            WorldKind::Cluster => self.agree_as_cluster(),
            _ => Ok(()),
        }
    }

    fn agree_with_sentinels(&mut self) -> Result<(), String> {
        within("the servers are as the sentinels want them", || {
            self.look_around();
            let master = &self.nodes[self.master()];
            master.is_master().is_ok_and(|it| it)
                && self
                    .others(self.master())
                    .all(|(_, node)| node.follows() && self.master_of(node).is_some_and(|it| it.name == master.name))
        })
    }

    fn agree_as_cluster(&mut self) -> Result<(), String> {
        within("the cluster is whole", || {
            self.look_around();
            // A half-moved slot stays with its owner, which has most of it. A Valkey replica keeps the slot states that
            // its master was asked to set, even if the master could not set them; so replicas are checked, too.
            let open: BTreeSet<_> = self.nodes.iter().flat_map(open_slots).collect();
            for (place, slot) in self.masters.iter().flat_map(|place| open.iter().map(move |slot| (*place, slot))) {
                // If it fails, the wait for a whole cluster reports it.
                let _ = self.nodes[place].say(&format!("CLUSTER SETSLOT {slot} STABLE"));
            }
            let count = self.nodes.len();
            self.masters.len() == count / 2 && self.nodes.iter().all(|node| agrees(node, count))
        })
    }
}

fn quieten(node: &Node, play: Play) -> Result<(), String> {
    // Mostly there is no script to kill.
    let _ = node.say("SCRIPT KILL");
    within(&format!("server {} answers", node.name), || node.answers())?;
    for setting in SETTINGS {
        node.say(setting)?;
    }
    node.say(&format!("CONFIG SET min-replicas-to-write {}", play.min_replicas()))?;
    Ok(())
}

fn agrees(node: &Node, count: usize) -> bool {
    let info = node.text("CLUSTER INFO").unwrap_or_default();
    let nodes = node.text("CLUSTER NODES").unwrap_or_default();
    let is_whole = ["cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|it| info.contains(it));
    let is_unsure = ["fail", "handshake", "noaddr", "->-", "-<-"].iter().any(|it| nodes.contains(it));
    let sees = |word: &str| nodes.matches(word).count();
    let follows = node.is_master().is_ok_and(|it| it) || node.follows();
    is_whole && !is_unsure && follows && (sees("master"), sees("slave")) == (count / 2, count / 2)
}

/// The slots that a node notes as moving.
fn open_slots(node: &Node) -> Vec<String> {
    let nodes = node.text("CLUSTER NODES").unwrap_or_default();
    let mine = nodes.lines().find(|line| line.contains("myself")).unwrap_or_default();
    mine.split('[').skip(1).filter_map(|it| it.split('-').next()).map(str::to_owned).collect()
}

fn end_what_has_no_end(node: &Node) -> Result<(), String> {
    let keys = node.say("KEYS *")?;
    for key in keys.words().into_iter().filter(|key| !key.starts_with(COUNTERS)) {
        node.run(&["PEXPIRE", key, LEASE_OF_WHAT_HAS_NONE_MS, "NX"])?;
    }
    Ok(())
}

pub fn within(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("waited in vain until {what}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
