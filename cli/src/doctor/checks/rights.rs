//! What the user of the address may not send. Rights are each server's own: a replica's users are not its master's.

use crate::doctor::finding::{Finding, Level};
use crate::doctor::reading::Reading;

/// What it takes to hold a lock and to wait for one.
const NEEDED: [&str; 5] = ["acquire", "release", "renew", "events", "cancel"];

pub fn look(reading: &Reading) -> Vec<Finding> {
    let nodes = reading.nodes.iter().filter_map(|node| Some((node, &node.seen.as_ref().ok()?.forbidden)));
    let found = nodes.flat_map(|(node, forbidden)| {
        let (needed, others): (Vec<&str>, Vec<_>) = forbidden.iter().partition(|name| NEEDED.contains(name));
        let told = [(Level::Wrong, needed, "to hold and await locks"), (Level::Note, others, "for what it is for")];
        told.into_iter().filter(|(_, names, _)| !names.is_empty()).map(move |(level, names, purpose)| {
            let list = |before: &str| names.iter().map(|name| format!("{before}{name}")).collect::<Vec<_>>().join(" ");
            let what = format!("the user {} may not send {}, each needed {purpose}", reading.user, list("RLOCK."));
            let finding = if level == Level::Wrong { Finding::wrong } else { Finding::note };
            finding("rights", &node.address, what).mended_by(format!(
                "ACL SETUSER {} {}",
                reading.user,
                list("+rlock.")
            ))
        })
    });
    found.collect()
}
