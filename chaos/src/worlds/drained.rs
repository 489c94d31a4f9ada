//! The state after all clients have gone: no waiter, no holder, and the same on all servers.

use super::calm::{COUNTERS, within};
use super::{Node, World, WorldKind};
use crate::history::Journal;
use rlock_testing::network::Order;
use std::time::{Duration, Instant};

/// How much later than the longest lease the last key may be gone: the last waiter may be granted then, and not
/// release.
const GRACE: Duration = Duration::from_secs(3);

const NOTHING_LEFT: &str = "nothing is left at the end";

impl World {
    /// Called when all clients have ended and all is calm.
    pub fn check_drained(&mut self, journal: &Journal, longest_lease: Duration) {
        for proxy in &self.proxies {
            // A connection with only the server's end left would wait without a limit.
            proxy.obey(Order::Cut);
        }
        let deadline = Instant::now() + longest_lease + self.borrowed + GRACE;
        for place in self.masters.clone() {
            check_node(&self.nodes[place], journal, deadline);
        }
        // Sentinels and nodes may have decided otherwise since: a failover takes them longer than clients take to end.
        if let Err(why) = self.agree() {
            journal.broken("servers recover when all faults are over", why);
        }
        self.check_replicas(journal);
        if self.kind == WorldKind::Durable {
            self.check_durable(journal);
        }
        self.check_logs(journal);
        self.watch_for_deaths(journal);
        self.keep_logs();
    }

    /// Checks each master with its replicas.
    fn check_replicas(&self, journal: &Journal) {
        for place in self.replicas() {
            let replica = &self.nodes[place];
            let Some(master) = self.master_of(replica) else {
                journal.broken("replicas follow", format!("server {} follows no master", replica.name));
                continue;
            };
            let mut digests = None;
            let agree = within("they agree", || {
                digests = Some((master.text("DEBUG DIGEST"), replica.text("DEBUG DIGEST")));
                matches!(&digests, Some((Ok(its), Ok(theirs))) if its == theirs)
            });
            if agree.is_err() {
                let (names, keys) = ((&master.name, &replica.name), [master, replica].map(|it| it.say("KEYS *")));
                journal.broken("replicas are as their master", format!("{names:?}: {digests:?}, {keys:?}"));
            }
        }
    }

    /// By the replica's own report: the port of the master, or of the proxy before it.
    pub fn master_of(&self, replica: &Node) -> Option<&Node> {
        let port: u16 = replica.info("replication", "master_port").ok()?.parse().ok()?;
        self.nodes.get(self.node_at(port)?)
    }

    fn check_durable(&mut self, journal: &Journal) {
        let everything = |node: &Node| node.server.as_ref().map(|server| server.client().everything());
        let before = everything(&self.nodes[0]);
        self.nodes[0].kill();
        if let Err(why) = self.nodes[0].restart(&[]) {
            journal.broken("a durable server comes back", why);
            return;
        }
        let after = everything(&self.nodes[0]);
        if before != after {
            journal.broken("a durable server has what it had", format!("before {before:?}, after {after:?}"));
        }
    }

    fn check_logs(&self, journal: &Journal) {
        const SAYS_SO: [&str; 4] = ["panic at ", "panic: ", "=== ASSERTION FAILED", "REDIS BUG REPORT"];
        for node in &self.nodes {
            let log = node.log();
            if let Some(line) = log.lines().find(|line| SAYS_SO.iter().any(|it| line.contains(it))) {
                journal.broken("no defect is logged", format!("server {}: {line}", node.name));
            }
        }
    }
}

fn check_node(node: &Node, journal: &Journal, deadline: Instant) {
    let mut left = remains(node);
    while left.as_ref().is_ok_and(|left| left.is_some()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        left = remains(node);
    }
    match left {
        Ok(None) => {}
        Ok(Some(left)) => journal.broken(NOTHING_LEFT, format!("server {}: {left}", node.name)),
        Err(why) => journal.broken(NOTHING_LEFT, format!("server {} gives no figure: {why}", node.name)),
    }
    let memory = |line: &str| node.info("memory", line).ok()?.parse::<f64>().ok();
    // The replication buffer grows up to repl-backlog-size, which is 10 MB on Valkey.
    if let (Some(used), Some(backlog)) = (memory("used_memory"), memory("mem_replication_backlog")) {
        let bytes = used - backlog;
        journal.measured(&format!("used memory after the round (server {})", node.name), bytes);
    }
}

/// Describes what remains. None if nothing does.
fn remains(node: &Node) -> Result<Option<String>, String> {
    const COUNTED: [&str; 6] =
        ["waiters", "locks_with_waiters", "tickets", "events_unacknowledged", "sessions", "revocations_due"];
    for line in COUNTED {
        let value = node.info("rlock", &format!("rlock_{line}"))?;
        if value != "0" {
            let queues = node.say("RLOCK.QUEUES COUNT 10");
            return Ok(Some(format!("{line}:{value}, {queues:?}")));
        }
    }
    let keys = node.say("KEYS *")?;
    let locks: Vec<_> = keys.words().into_iter().filter(|key| !key.starts_with(COUNTERS)).collect();
    let Some(first) = locks.first() else { return Ok(None) };
    let ttl = node.run(&["PTTL", first])?;
    Ok(Some(format!("{} keys: {:?} …, the first for {ttl:?} ms", locks.len(), &locks[..locks.len().min(20)])))
}
