//! Unknown settings, which do not count as fine.

use crate::doctor::finding::Finding;
use crate::doctor::reading::{Node, Reading, Seen};

/// The report for a server that did not reply.
pub const SILENT: &str = "silence";

pub fn look(reading: &Reading) -> Vec<Finding> {
    let nodes = reading.nodes.iter().flat_map(|node| match &node.seen {
        Ok(seen) => parts(node, seen),
        Err(why) => vec![Finding::unknown(SILENT, &node.address, format!("it does not answer, and all of it: {why}"))],
    });
    let views = reading.cluster.iter().filter_map(|(address, view)| {
        let why = view.as_ref().err()?;
        Some(Finding::unknown("cluster", address, format!("how it sees the cluster: {why}")))
    });
    nodes.chain(views).collect()
}

fn parts(node: &Node, Seen { greeting, info, settings, clock, .. }: &Seen) -> Vec<Finding> {
    let parts = [
        ("module", "its version and its module", greeting.as_ref().err()),
        ("info", "its role, its replicas and whether a grace runs", info.as_ref().err()),
        ("settings", "all of its settings", settings.as_ref().err()),
        ("clock", "its clock", clock.as_ref().err()),
    ];
    let findings = parts
        .into_iter()
        .filter_map(|(about, what, why)| Some(Finding::unknown(about, &node.address, format!("{what}: {}", why?))));
    findings.collect()
}
