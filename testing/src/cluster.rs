//! A cluster of real servers on loopback ports: three masters, and a replica for each if wanted.
//!
//! A slot without an owner does not stop the others (`cluster-require-full-coverage no`), so that tests can tell one dead
//! master from a dead cluster.

use crate::{Client, Server, wait_until};
use std::time::{Duration, Instant};

const MASTERS: usize = 3;

/// After how long a silent node is taken for dead. Not shorter: a busy machine must not look like a dead one.
const NODE_TIMEOUT_MS: &str = "1500";

/// When nodes are introduced to each other again. Later than the time after which a silent node is forgotten.
const INTRODUCED_AGAIN: Duration = Duration::from_secs(5);

/// The first and the last slot of each master.
const SLOTS: [(i64, i64); MASTERS] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

pub struct Cluster {
    pub masters: Vec<Server>,
    /// Of the master at the same place, if there are any.
    pub replicas: Vec<Server>,
}

impl Cluster {
    /// Three masters.
    pub fn start() -> Self {
        let cluster = Self { masters: nodes(), replicas: Vec::new() };
        Self::join(&cluster.masters.iter().collect::<Vec<_>>(), &[]);
        cluster
    }

    /// Three masters with a replica each.
    pub fn start_with_replicas() -> Self {
        let cluster = Self { masters: nodes(), replicas: nodes() };
        let (masters, replicas): (Vec<_>, Vec<_>) =
            (cluster.masters.iter().collect(), cluster.replicas.iter().collect());
        Self::join(&masters, &replicas);
        cluster
    }

    /// Makes a cluster of servers that know nothing of each other yet: three masters, and a replica for each or none.
    pub fn join(masters: &[&Server], replicas: &[&Server]) {
        meet(masters, replicas);
        for (replica, master) in replicas.iter().zip(masters) {
            let (mut replica, master) = (replica.client(), id(&mut master.client()));
            let replicate = format!("CLUSTER REPLICATE {master}");
            wait_until("the replica knows its master", || replica.say(&replicate).words() == ["OK"]);
        }
        wait_until_ready(masters, replicas);
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.masters.iter().chain(&self.replicas)
    }

    /// A key that is on that master as long as no slot moves.
    pub fn key_on(&self, master: usize) -> String {
        let (mut client, (first, last)) = (self.masters[master].client(), SLOTS[master]);
        let mut names = (0..).map(|number| format!("orders:{number}"));
        names.find(|name| (first..=last).contains(&slot_of(&mut client, name))).expect("there are many names")
    }

    /// Begins to move a key's slot: new keys are created at the new place from now on.
    pub fn begin_to_move(&self, key: &str, from: usize, to: usize) -> SlotMove {
        let [mut source, mut target] = [from, to].map(|node| self.masters[node].client());
        let slot = slot_of(&mut source, key);
        let target_id = id(&mut target);
        ok(&mut target, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(&mut source)));
        ok(&mut source, &format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}"));
        SlotMove { slot, source, target, target_id, target_port: self.masters[to].port() }
    }
}

fn meet(masters: &[&Server], replicas: &[&Server]) {
    let nodes = || masters.iter().chain(replicas);
    for (node, epoch) in nodes().zip(1..) {
        ok(&mut node.client(), &format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    }
    for (master, (first, last)) in masters.iter().zip(SLOTS) {
        ok(&mut master.client(), &format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
    }
    let mut one = masters[0].client();
    let mut introduce = || {
        for other in nodes().skip(1) {
            ok(&mut one, &format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.cluster_port()));
        }
    };
    let all = format!("cluster_known_nodes:{}", nodes().count());
    let knows_all = || nodes().all(|node| node.client().say("CLUSTER INFO").as_text().contains(&all));
    introduce();
    let mut introduced = Instant::now();
    wait_until("the nodes know each other", || {
        // A node that was too busy to answer is forgotten. The other nodes do not ask it again.
        if introduced.elapsed() > INTRODUCED_AGAIN {
            introduce();
            introduced = Instant::now();
        }
        knows_all()
    });
}

fn wait_until_ready(masters: &[&Server], replicas: &[&Server]) {
    for node in masters.iter().chain(replicas) {
        let mut client = node.client();
        wait_until("the node sees the cluster as a whole", || {
            let info = client.say("CLUSTER INFO");
            let nodes = client.say("CLUSTER NODES");
            let sees = |word: &str| nodes.as_text().matches(word).count();
            ["cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|it| info.as_text().contains(it))
                && (sees("master"), sees("slave")) == (masters.len(), replicas.len())
        });
    }
    for replica in replicas {
        replica.until_linked();
    }
}

/// A slot on its way from one master to another.
pub struct SlotMove {
    slot: i64,
    pub source: Client,
    pub target: Client,
    target_id: String,
    target_port: u16,
}

impl SlotMove {
    /// Moves the keys that are there.
    pub fn move_keys(&mut self) {
        let keys = self.source.say(&format!("CLUSTER GETKEYSINSLOT {} 1000", self.slot));
        for key in keys.words() {
            self.move_key(key);
        }
    }

    /// Moves one key ahead of the others.
    pub fn move_key(&mut self, key: &str) {
        ok(&mut self.source, &format!("MIGRATE 127.0.0.1 {} {key} 0 10000", self.target_port));
    }

    /// Gives the slot to the target. The third master learns of it some time later.
    pub fn finish(&mut self) {
        let command = format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.target_id);
        ok(&mut self.target, &command);
        ok(&mut self.source, &command);
    }
}

fn nodes() -> Vec<Server> {
    let options = [
        ["--cluster-node-timeout", NODE_TIMEOUT_MS],
        ["--cluster-require-full-coverage", "no"],
        // A replica may always take its master's place, however long ago it heard of it.
        ["--cluster-replica-validity-factor", "0"],
    ];
    (0..MASTERS).map(|_| Server::prepare().in_cluster().options(options.as_flattened()).start()).collect()
}

fn slot_of(client: &mut Client, key: &str) -> i64 {
    client.run(&["CLUSTER", "KEYSLOT", key]).as_int()
}

fn id(client: &mut Client) -> String {
    client.say("CLUSTER MYID").as_text().to_owned()
}

fn ok(client: &mut Client, command: &str) {
    let reply = client.say(command);
    assert_eq!(reply.words(), ["OK"], "{command}: {reply:?}");
}
