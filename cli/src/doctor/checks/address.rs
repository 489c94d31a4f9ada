//! Whether the address names the whole setup: one node's settings would look like those of all nodes.

use crate::address::Way;
use crate::doctor::finding::Finding;
use crate::doctor::reading::Reading;

pub fn look(reading: &Reading) -> Vec<Finding> {
    let Some(node) = reading.nodes.first() else { return Vec::new() };
    let wrong = |what: &str, scheme: String, address: &str| {
        vec![Finding::wrong("address", &node.address, what).fixed_by(format!("RLOCK_URL={scheme}://{address}"))]
    };
    let is_node = node.greeting().is_some_and(|greeting| greeting.is_of_a_cluster);
    match (&node.follows, reading.way) {
        (_, Way::One) if is_node => wrong(
            "it is one node of a cluster, and others have the other locks",
            format!("{}+cluster", reading.scheme),
            &node.address,
        ),
        (Some(master), Way::One) => {
            wrong("it is a replica, which grants no locks", reading.scheme.to_owned(), &master.clone())
        }
        _ => Vec::new(),
    }
}
