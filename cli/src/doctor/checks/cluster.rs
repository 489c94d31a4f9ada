//! Whether a cluster serves all locks, and still does when one of its masters fails.

use crate::address::Way;
use crate::doctor::finding::Finding;
use crate::doctor::reading::Reading;

/// With fewer, the loss of one leaves no majority.
const LEAST: usize = 3;

const SLOTS: u64 = 16_384;

pub fn look(reading: &Reading) -> Vec<Finding> {
    if reading.way != Way::Cluster {
        return Vec::new();
    }
    let views = reading.cluster.iter().filter_map(|(address, view)| Some((address, view.as_ref().ok()?)));
    let state = views.filter_map(|(address, view)| {
        let fix = format!("redis-cli --cluster fix {address}");
        let slots = view.number("cluster_slots_assigned").filter(|slots| *slots != SLOTS);
        if let Some(slots) = slots {
            let what = format!("it knows masters of {slots} of {SLOTS} slots: locks on the others are refused");
            return Some(Finding::wrong("slots", address, what).fixed_by(fix));
        }
        let state = view.text("cluster_state").filter(|state| *state != "ok")?;
        let what = format!("for it the state of the cluster is {state}: it grants no locks");
        Some(Finding::wrong("cluster", address, what))
    });
    let mut found: Vec<_> = state.collect();
    if reading.has_replicas() {
        let masters: Vec<_> = reading.masters().collect();
        if let Some(first) = masters.first().filter(|_| masters.len() < LEAST) {
            let what = format!(
                "{} masters have slots: with one of them fails the majority that a failover takes",
                masters.len()
            );
            let line = format!("redis-cli --cluster add-node NEW-HOST:PORT {}", first.address);
            found.push(Finding::wrong("masters", &first.address, what).fixed_by(line));
        }
        let alone = masters.iter().filter(|master| reading.replicas_of(master).next().is_none());
        found.extend(alone.map(|master| {
            let what = "no replica follows it: when it fails, its locks are refused until it is back";
            let line = format!("redis-cli --cluster add-node NEW-HOST:PORT {} --cluster-slave", master.address);
            Finding::wrong("replicas", &master.address, what).fixed_by(line)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{cluster, found};

    #[test]
    fn all_slots_are_served() {
        let mut reading = cluster();
        assert_eq!(look(&reading), []);
        let view = reading.cluster[1].1.as_mut().unwrap();
        view.0.insert("cluster_state".to_owned(), "fail".to_owned());
        assert_eq!(found(&look(&reading)), [("cluster", None)]);
        let view = reading.cluster[1].1.as_mut().unwrap();
        view.0.insert("cluster_slots_assigned".to_owned(), "16000".to_owned());
        assert_eq!(found(&look(&reading)), [("slots", Some("redis-cli --cluster fix 10.0.0.2:6379"))]);
    }

    #[test]
    fn each_master_has_a_replica_and_three_are_a_majority() {
        let mut reading = cluster();
        reading.nodes.remove(5);
        let line = "redis-cli --cluster add-node NEW-HOST:PORT 10.0.0.3:6379 --cluster-slave";
        assert_eq!(found(&look(&reading)), [("replicas", Some(line))]);
        reading.nodes.remove(2);
        assert_eq!(
            found(&look(&reading)),
            [("masters", Some("redis-cli --cluster add-node NEW-HOST:PORT 10.0.0.1:6379"))]
        );
    }
}
