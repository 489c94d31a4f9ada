//! Whether a full server throws locks away: they are keys with a TTL, so each policy but one may.

use crate::doctor::finding::Finding;
use crate::doctor::reading::Reading;

pub fn look(reading: &Reading) -> Vec<Finding> {
    let found = reading.nodes.iter().filter_map(|node| {
        let policy = node.settings()?.text("maxmemory-policy").filter(|policy| *policy != "noeviction")?;
        // Without a limit it is never full.
        node.setting("maxmemory").filter(|limit| *limit > 0)?;
        let what = format!("maxmemory-policy is {policy}: when it is full it evicts locks, and others get them");
        Some(Finding::wrong("maxmemory-policy", &node.address, what).set("noeviction"))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{alone, found, set};

    #[test]
    fn a_full_server_keeps_its_locks() {
        let mut reading = alone();
        assert_eq!(look(&reading), []);
        for policy in ["allkeys-lru", "volatile-ttl"] {
            set(&mut reading, 0, &[("maxmemory-policy", policy), ("maxmemory", "0")]);
            assert_eq!(look(&reading), []);
            set(&mut reading, 0, &[("maxmemory", "1048576")]);
            assert_eq!(found(&look(&reading)), [("maxmemory-policy", Some("CONFIG SET maxmemory-policy noeviction"))]);
        }
    }
}
