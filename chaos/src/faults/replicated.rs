//! Failovers without sentinels: the harness itself replaces a master by its replica.

use super::keys::SWAP;
use super::servers::KILL_REPLICA;
use super::{AT_ONCE, Begun, Class, Effects, Kind, Outcome, Progress, Scene, kind};
use crate::history::Reach;
use crate::server_clock::ServerClock;
use crate::worlds::{Node, World};

pub const KINDS: &[Kind] = &[
    SWAP,
    KILL_REPLICA,
    kind("hand over by FAILOVER", Class::Topology, 4, AT_ONCE, hand_over),
    kind("kill the master", Class::Topology, 4, (100, 1_000), kill),
    kind("two masters", Class::Topology, 4, (300, 2_500), divide),
];

/// The master, and a replica that can take over.
fn masters(world: &World) -> Result<(usize, usize), String> {
    let new = *world.replicas().first().ok_or("there is no replica")?;
    if world.nodes[new].follows() {
        Ok((world.master(), new))
    } else {
        Err("the replica does not follow yet".to_owned())
    }
}

/// The effects of a takeover, also in a cluster.
pub fn takes_over(world: &World, what: &str, old: usize, new: usize) -> Effects {
    let mut effects = clocks_apart(world, old);
    let [old, new] = [old, new].map(|place| world.nodes[place].name.clone());
    let words = format!("{what}: server {new} takes over from {old}");
    effects.push((words, Reach::Failover { server: old, is_covered: false }));
    effects
}

/// Leases are replicated as end times, so a new master applies its own clock to them.
pub fn clocks_apart(world: &World, old: usize) -> Effects {
    let offset = |node: &Node| node.clock.as_ref().map_or(0, ServerClock::offset_ms);
    let (server, by) = (&world.nodes[old].name, offset(&world.nodes[old]));
    let others = world.others(old).map(|(_, node)| offset(node) - by).filter(|by_ms| *by_ms != 0);
    let effect = |by_ms| (format!("leases of server {server} may move by {by_ms} ms"), by_ms);
    others.map(effect).map(|(what, by_ms)| (what, Reach::ClockStep { server: server.clone(), by_ms })).collect()
}

fn hand_over(scene: &mut Scene) -> Outcome {
    let world = &mut scene.world;
    let (old, new) = masters(world)?;
    let port = world.nodes[new].port;
    world.nodes[old].say(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 3000"))?;
    Ok(Begun::until(takes_over(world, "FAILOVER", old, new), move |scene| {
        let world = &mut scene.world;
        if world.nodes[old].info("replication", "master_failover_state")? != "no-failover" {
            return Ok(Progress::NotYet);
        }
        if world.nodes[old].is_master()? {
            // The server gave up, and nothing has changed.
            return Ok(Progress::Over);
        }
        if !world.nodes[new].is_master()? {
            return Ok(Progress::NotYet);
        }
        world.make_master(new);
        Ok(if world.nodes[old].follows() { Progress::Over } else { Progress::Harmless })
    }))
}

fn kill(scene: &mut Scene) -> Outcome {
    let world = &mut scene.world;
    let (old, new) = masters(world)?;
    world.nodes[old].kill();
    let effects = takes_over(world, "kill -9 of the master", old, new);
    Ok(replaced(effects, (old, new), new, "REPLICAOF NO ONE".to_owned()))
}

/// Two masters for a while: clients of the second line reach the promoted replica. When the fault ends, the old master
/// forgets what it has promised its clients meanwhile.
fn divide(scene: &mut Scene) -> Outcome {
    let world = &mut scene.world;
    let (old, new) = masters(world)?;
    world.nodes[new].say("REPLICAOF NO ONE")?;
    world.divide(old, new);
    let follow = format!("REPLICAOF 127.0.0.1 {}", world.nodes[new].port);
    let effects = takes_over(world, "a partition with two masters", old, new);
    Ok(replaced(effects, (old, new), old, follow))
}

/// After this command to the server at `commanded`, the new master is the only one. Everything is restored once the old
/// one follows it.
fn replaced(effects: Effects, (old, new): (usize, usize), commanded: usize, command: String) -> Begun {
    let mut is_replaced = false;
    Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        if !is_replaced {
            world.nodes[commanded].say(&command)?;
            world.make_master(new);
            is_replaced = true;
            return Ok(Progress::Harmless);
        }
        world.start_again(old)?;
        Ok(Progress::over_if(world.nodes[old].follows()))
    })
}
