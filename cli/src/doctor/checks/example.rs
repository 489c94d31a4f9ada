//! Setups in which nothing is wrong, for the checks' tests to break.

use crate::address::Way;
use crate::doctor::finding::Finding;
use crate::doctor::reading::{Clock, Lines, Node, Reading, Seen, Sentinel};
use crate::greeting::Greeting;

fn lines(pairs: &[(&str, &str)]) -> Lines {
    Lines(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn address(machine: usize) -> String {
    format!("10.0.0.{machine}:6379")
}

fn node(machine: usize, follows: Option<usize>, replicas: &[usize]) -> Node {
    let mut info = lines(&[("aof_last_write_status", "ok"), ("rlock_grace_left_ms", "0")]);
    for (place, replica) in replicas.iter().enumerate() {
        let line = format!("ip=10.0.0.{replica},port=6379,state=online,offset=1,lag=0");
        info.0.insert(format!("slave{place}"), line);
    }
    if follows.is_some() {
        info.0.insert("master_link_status".to_owned(), "up".to_owned());
    }
    let settings = lines(&[
        ("appendfsync", "everysec"),
        ("appendonly", "yes"),
        ("cluster-node-timeout", "15000"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("min-replicas-max-lag", "2"),
        ("min-replicas-to-write", if replicas.is_empty() && follows.is_none() { "0" } else { "1" }),
        ("rlock.grace", "30000"),
        ("rlock.tokens", "clock"),
        ("save", ""),
    ]);
    let greeting = Greeting {
        server: "redis 7.0.15".to_owned(),
        is_of_a_cluster: false,
        is_replica: follows.is_some(),
        module: Some(100),
    };
    let seen = Seen {
        greeting: Ok(greeting),
        info: Ok(info),
        settings: Ok(settings),
        clock: Ok(Clock { offset_us: 0, uncertain_us: 200 }),
        forbidden: Vec::new(),
    };
    Node { address: address(machine), follows: follows.map(address), is_down: false, seen: Ok(seen) }
}

fn reading(way: Way, nodes: Vec<Node>) -> Reading {
    Reading { way, scheme: "redis", user: "app".to_owned(), nodes, sentinels: Vec::new(), cluster: Vec::new() }
}

/// One server.
pub fn alone() -> Reading {
    reading(Way::One, vec![node(1, None, &[])])
}

/// A master and two replicas that three sentinels watch.
pub fn watched() -> Reading {
    let mut reading =
        reading(Way::Sentinels, vec![node(1, None, &[2, 3]), node(2, Some(1), &[]), node(3, Some(1), &[])]);
    let master = [
        ("name", "locks"),
        ("ip", "10.0.0.1"),
        ("port", "6379"),
        ("down-after-milliseconds", "6000"),
        ("num-other-sentinels", "2"),
    ];
    let sentinel =
        |machine| Sentinel { address: format!("10.0.0.{machine}:26379"), master: Ok(lines(&master)), quorum: Ok(()) };
    reading.sentinels = (1..=3).map(sentinel).collect();
    reading
}

/// Three masters and a replica of each.
pub fn cluster() -> Reading {
    let masters = (1..=3).map(|machine| node(machine, None, &[machine + 3]));
    let replicas = (1..=3).map(|machine| node(machine + 3, Some(machine), &[]));
    let mut reading = reading(Way::Cluster, masters.chain(replicas).collect());
    let view = lines(&[("cluster_state", "ok"), ("cluster_slots_assigned", "16384")]);
    reading.cluster = (1..=6).map(|machine| (address(machine), Ok(view.clone()))).collect();
    reading
}

/// What that node has reported.
pub fn seen(reading: &mut Reading, node: usize) -> &mut Seen {
    reading.nodes[node].seen.as_mut().unwrap()
}

/// Changes settings of that node.
pub fn set(reading: &mut Reading, node: usize, pairs: &[(&str, &str)]) {
    seen(reading, node).settings.as_mut().unwrap().0.extend(lines(pairs).0);
}

/// What that sentinel says of the master.
pub fn sentinel(reading: &mut Reading, which: usize) -> &mut Lines {
    reading.sentinels[which].master.as_mut().unwrap()
}

/// The subjects of the findings, and the lines that fix them.
pub fn found(findings: &[Finding]) -> Vec<(&str, Option<&str>)> {
    findings.iter().map(|finding| (finding.about, finding.fix.as_deref())).collect()
}

#[test]
fn nothing_is_wrong_with_them() {
    use crate::doctor::finding::Level;
    for (reading, notes) in [(alone(), 1), (watched(), 0), (cluster(), 1)] {
        let found = super::all(&reading);
        assert!(found.iter().all(|finding| finding.level == Level::Note), "{found:?}");
        assert_eq!(found.len(), notes, "{found:?}");
    }
}
