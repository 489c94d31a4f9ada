//! Whether a new master waits until every client that believes in a forgotten lock has stopped.

use crate::doctor::finding::Finding;
use crate::doctor::reading::Reading;
use crate::shown;
use std::time::Duration;

/// The default lease of Redisson's clients and of `rlock run`.
const LEASE_MS: u64 = 30_000;

/// The subject of the finding for a grace that has not ended.
pub const RUNNING: &str = "grace";

pub fn look(reading: &Reading) -> Vec<Finding> {
    let set: Vec<_> = reading.nodes.iter().filter_map(|node| Some((node, node.setting("rlock.grace")?))).collect();
    let longest = set.iter().map(|(_, grace)| *grace).max().unwrap_or_default();
    let lengths = set.iter().filter_map(|(node, grace)| {
        let wrong = |what: String| Finding::wrong("rlock.grace", &node.address, what);
        match *grace {
            0 if reading.has_replicas() => {
                let what = "rlock.grace is 0: after a failover others get the locks that had not reached it, while \
                            their holders go on";
                Some(wrong(what.to_owned()).set(if longest > 0 { longest } else { LEASE_MS }))
            }
            grace if grace < longest => {
                let what = format!("rlock.grace is {grace}, and elsewhere {longest}: it must be the same everywhere");
                Some(wrong(what).set(longest))
            }
            grace if (1..LEASE_MS).contains(&grace) => {
                let what = format!("rlock.grace is {grace}: longer leases are refused, and most clients ask for 30000");
                Some(Finding::note("rlock.grace", &node.address, what))
            }
            _ => None,
        }
    });
    let running = reading.nodes.iter().filter_map(|node| {
        let left = node.info()?.number("rlock_grace_left_ms").filter(|left| *left > 0)?;
        Some(Finding::note(RUNNING, &node.address, shown::grace(Duration::from_millis(left))))
    });
    let tokens = reading.nodes.iter().filter_map(|node| {
        node.settings()?.text("rlock.tokens").filter(|rule| *rule == "count" && reading.has_replicas())?;
        let what = "rlock.tokens is count: a fencing token may come twice after a failover";
        Some(Finding::note("rlock.tokens", &node.address, what).set("clock"))
    });
    lengths.chain(running).chain(tokens).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{alone, found, set, watched};

    #[test]
    fn a_master_with_replicas_needs_a_grace() {
        let mut reading = watched();
        (0..3).for_each(|node| set(&mut reading, node, &[("rlock.grace", "0")]));
        assert_eq!(found(&look(&reading)), [("rlock.grace", Some("CONFIG SET rlock.grace 30000")); 3]);
        let mut one = alone();
        set(&mut one, 0, &[("rlock.grace", "0")]);
        assert_eq!(look(&one), []);
        set(&mut one, 0, &[("rlock.grace", "5000")]);
        assert_eq!(found(&look(&one)), [("rlock.grace", None)]);
    }
}
