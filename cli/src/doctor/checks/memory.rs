//! Whether a full server evicts locks: they are keys with a TTL, so every policy except one may evict them.

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
