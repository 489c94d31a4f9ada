//! Faults of connections, by the server's own commands.

use super::Class::{Clients, Unblock};
use super::{AT_ONCE, Begun, Kind, Outcome, Scene, kind};
use crate::history::Reach;
use crate::worlds::Node;

pub const KINDS: &[Kind] = &[
    kind("kill clients that wait", Clients, 8, AT_ONCE, |scene| some(scene, true, "KILL ID #")),
    kind("kill clients that do not wait", Clients, 6, AT_ONCE, |scene| some(scene, false, "KILL ID #")),
    kind("unblock as by time", Unblock, 6, AT_ONCE, |scene| some(scene, true, "UNBLOCK # TIMEOUT")),
    kind("unblock with an error", Unblock, 6, AT_ONCE, |scene| some(scene, true, "UNBLOCK # ERROR")),
];

/// How many at a time.
const FEW: u64 = 8;

/// A line of CLIENT LIST.
struct Connection {
    id: i64,
    /// It waits for a lock, or for events of its session.
    waits: bool,
}

/// `how`: the command, with a # for the connection's id. It counts as carried out if the server replies 1, or nothing.
fn some(scene: &mut Scene, waits: bool, how: &str) -> Outcome {
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    let list = node.text("CLIENT LIST")?;
    let mut ids: Vec<_> = connections(&list).filter(|it| it.waits == waits).map(|it| it.id).collect();
    let wanted = usize::try_from(scene.random.between((1, FEW))).expect("a few");
    while ids.len() > wanted {
        let place = usize::try_from(scene.random.below(ids.len() as u64)).expect("a place in the list");
        ids.swap_remove(place);
    }
    let mut effects = Vec::new();
    for id in ids {
        let command = format!("CLIENT {}", how.replace('#', &id.to_string()));
        if node.count(&command).map_or(true, |count| count > 0) {
            effects.push((words(node, &command), Reach::Wait { client_id: id }));
        }
    }
    Ok(Begun::done(effects))
}

fn words(node: &Node, command: &str) -> String {
    format!("{command} at server {}", node.name)
}

/// Client connections, which use TCP. Not replicas or masters, and not the observers, which use the unix socket.
fn connections(list: &str) -> impl Iterator<Item = Connection> + '_ {
    list.lines().filter_map(|line| {
        let field = |name: &str| line.split(' ').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        let flags = field("flags")?;
        if flags.contains(['S', 'M', 'U']) {
            return None;
        }
        let waits = flags.contains('b') && field("cmd")?.to_ascii_lowercase().starts_with("rlock.");
        Some(Connection { id: field("id")?.parse().ok()?, waits })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tcp_clients_are_chosen_and_only_waits_for_locks_or_events_count() {
        let list = "id=3 addr=127.0.0.1:1 name= flags=N cmd=rlock.renew user=default\n\
                    id=4 addr=127.0.0.1:2 name= flags=b cmd=rlock.acquire user=default\n\
                    id=8 addr=127.0.0.1:6 name= flags=b cmd=rlock.events user=default\n\
                    id=5 addr=127.0.0.1:3 name= flags=b cmd=wait user=default\n\
                    id=6 addr=127.0.0.1:4 name= flags=S cmd=replconf user=default\n\
                    id=7 addr=/tmp/socket:0 name= flags=U cmd=client|list user=default\n";
        let seen: Vec<_> = connections(list).map(|it| (it.id, it.waits)).collect();
        assert_eq!(seen, [(3, false), (4, true), (8, true), (5, false)]);
    }
}
