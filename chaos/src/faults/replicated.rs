//! Who takes over where nobody watches but we: a master and its replica.

use super::{Begun, Progress, Scene, What};
use crate::history::Reach;
use crate::worlds::World;

pub fn begin(what: What, scene: &mut Scene) -> Result<Begun, String> {
    let world = &mut scene.world;
    let old = world.master();
    let new = *world.replicas().first().ok_or("there is no replica")?;
    if !world.nodes[new].follows() {
        return Err("the replica does not follow yet".to_owned());
    }
    match what {
        What::FailOver => hand_over(world, old, new),
        What::KillMaster => kill(world, old, new),
        What::Partition => divide(world, old, new),
        _ => Err("nobody would take over".to_owned()),
    }
}

fn effects(world: &World, what: &str, old: usize, new: usize) -> Vec<(String, Reach)> {
    let [old, new] = [old, new].map(|place| world.nodes[place].name.clone());
    vec![(format!("{what}: server {new} takes over from {old}"), Reach::Failover { server: old })]
}

fn hand_over(world: &mut World, old: usize, new: usize) -> Result<Begun, String> {
    let port = world.nodes[new].port();
    world.nodes[old].say(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 3000"))?;
    Ok(Begun::until(effects(world, "FAILOVER", old, new), move |scene| {
        let world = &mut scene.world;
        if world.nodes[old].info("replication", "master_failover_state")? != "no-failover" {
            return Ok(Progress::NotYet);
        }
        if world.nodes[old].is_master()? {
            // It was given up, and nothing has changed.
            return Ok(Progress::Over);
        }
        if !world.nodes[new].is_master()? {
            return Ok(Progress::NotYet);
        }
        world.make_master(new);
        Ok(if world.nodes[old].follows() { Progress::Over } else { Progress::Harmless })
    }))
}

fn kill(world: &mut World, old: usize, new: usize) -> Result<Begun, String> {
    world.nodes[old].kill();
    let effects = effects(world, "kill -9 of the master", old, new);
    let mut is_promoted = false;
    Ok(Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        if !is_promoted {
            world.nodes[new].say("REPLICAOF NO ONE")?;
            world.make_master(new);
            is_promoted = true;
            return Ok(Progress::Harmless);
        }
        if !world.nodes[old].is_up() {
            world.restart(old)?;
        }
        Ok(if world.nodes[old].follows() { Progress::Over } else { Progress::NotYet })
    }))
}

/// Two masters for a while: whoever goes by the second line finds the promoted replica. When it ends, the old master
/// forgets what its clients were told meanwhile.
fn divide(world: &mut World, old: usize, new: usize) -> Result<Begun, String> {
    world.nodes[new].say("REPLICAOF NO ONE")?;
    world.divide(new);
    let port = world.nodes[new].port();
    let effects = effects(world, "a partition with two masters", old, new);
    let mut is_healed = false;
    Ok(Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        if !is_healed {
            world.nodes[old].say(&format!("REPLICAOF 127.0.0.1 {port}"))?;
            world.make_master(new);
            is_healed = true;
            return Ok(Progress::Harmless);
        }
        Ok(if world.nodes[old].follows() { Progress::Over } else { Progress::NotYet })
    }))
}
