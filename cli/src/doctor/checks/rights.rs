//! What the user of the address may not send. Rights are each server's own: a replica's users are not its master's.

use crate::doctor::finding::{Finding, Level};
use crate::doctor::reading::Reading;
use rlock_core::words::{self, Command};

/// The commands that a client needs to hold a lock and to wait for one.
const NEEDED: [&Command; 5] = [&words::ACQUIRE, &words::RELEASE, &words::RENEW, &words::EVENTS, &words::CANCEL];

pub fn look(reading: &Reading) -> Vec<Finding> {
    let nodes = reading.nodes.iter().filter_map(|node| Some((node, &node.seen.as_ref().ok()?.forbidden)));
    let found = nodes.flat_map(|(node, forbidden)| {
        let is_needed = |name: &&str| NEEDED.iter().any(|command| command.name == *name);
        let (needed, others): (Vec<&str>, Vec<_>) = forbidden.iter().partition(|name| is_needed(name));
        let groups = [(Level::Wrong, needed, "to hold and await locks"), (Level::Note, others, "for what it is for")];
        groups.into_iter().filter(|(_, names, _)| !names.is_empty()).map(move |(level, names, purpose)| {
            let what = format!("the user {} may not send {}, each needed {purpose}", reading.user, names.join(" "));
            let finding = if level == Level::Wrong { Finding::wrong } else { Finding::note };
            let rights: Vec<_> = names.iter().map(|name| format!("+{}", name.to_lowercase())).collect();
            finding("rights", &node.address, what).fixed_by(format!(
                "ACL SETUSER {} {}",
                reading.user,
                rights.join(" ")
            ))
        })
    });
    found.collect()
}
