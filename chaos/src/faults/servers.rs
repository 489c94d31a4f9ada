//! What is done to servers: they stand still, are killed, are paused, and are busy with something else.

use super::{Begun, Fault, Progress, Scene, What, a_master};
use crate::history::{Moment, Reach};
use crate::worlds::{Node, Refusal, World, WorldKind};
use rlock_testing::Client;
use rlock_testing::Random;
use std::time::Duration;

/// How much longer a pause would last if its end did not come.
const PAUSE_BEYOND: Duration = Duration::from_millis(300);

pub fn begin(fault: &Fault, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let place = a_master(scene, random);
    match fault.what {
        What::FreezeServer => freeze(scene, random.below(scene.world.nodes.len() as u64)),
        What::KillReplica => kill_replica(scene, random),
        What::KillServer => kill(scene, place),
        What::Pause { writes_only } => pause(scene, place, writes_only, fault.lasts),
        What::Sleep => sleep(scene, place),
        What::BusyScript => be_busy(scene, place),
        What::Save { aof } => save(scene, place, if aof { "BGREWRITEAOF" } else { "BGSAVE" }),
        _ => Err("that is not done to a server".to_owned()),
    }
}

fn freeze(scene: &mut Scene, place: u64) -> Result<Begun, String> {
    let place = usize::try_from(place).expect("a place among few");
    let node = &mut scene.world.nodes[place];
    if !node.is_up() {
        return Err(format!("server {} is down", node.name));
    }
    node.freeze();
    let effects = vec![(format!("server {} stands still", node.name), no_writes(node))];
    Ok(Begun::until(effects, move |scene| {
        scene.world.nodes[place].thaw();
        Ok(Progress::Over)
    }))
}

fn kill(scene: &mut Scene, place: usize) -> Result<Begun, String> {
    let world = &mut scene.world;
    if !matches!(world.kind, WorldKind::Single | WorldKind::Durable | WorldKind::Majority) {
        return Err("a master that has replicas is killed otherwise".to_owned());
    }
    let server = world.nodes[place].name.clone();
    let what = format!("kill -9 of server {server}, which is started again on what it left");
    let reach = match world.kind {
        WorldKind::Durable => Reach::Restart { server: server.clone() },
        _ => Reach::Failover { server: server.clone() },
    };
    world.nodes[place].kill();
    let effects = vec![(what.clone(), reach), (what, Reach::NoWrites { server })];
    Ok(Begun::until(effects, move |scene| start_again(scene.world, place)))
}

fn start_again(world: &mut World, place: usize) -> Result<Progress, String> {
    if !world.nodes[place].is_up() {
        world.restart(place)?;
    }
    Ok(Progress::Over)
}

/// Nothing of it is gone that the master does not have, but while it is away its master is alone.
fn kill_replica(scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let replicas = scene.world.replicas();
    if replicas.is_empty() {
        return Err("there is no replica".to_owned());
    }
    let place = random.one_of(&replicas);
    scene.world.nodes[place].kill();
    let what = format!("kill -9 of server {}, a replica, which is started again", scene.world.nodes[place].name);
    Ok(Begun::until(vec![(what, Reach::Nobody)], move |scene| {
        start_again(scene.world, place)?;
        Ok(if scene.world.nodes[place].follows() { Progress::Over } else { Progress::NotYet })
    }))
}

fn pause(scene: &mut Scene, place: usize, writes_only: bool, lasts: Duration) -> Result<Begun, String> {
    let node = &scene.world.nodes[place];
    let (what, ms) = if writes_only {
        ("WRITE", (lasts + PAUSE_BEYOND).as_millis())
    } else {
        // It cannot be ended: who would end it is put off as well.
        ("ALL", lasts.as_millis())
    };
    let asked = Moment::now();
    node.say(&format!("CLIENT PAUSE {ms} {what}"))?;
    let (from, process) = (Moment::now(), node.process());
    // Of itself it ends at that time of the server's clock, which counts whole ms.
    let by_itself = asked + Duration::from_millis(u64::try_from(ms).unwrap_or(0).saturating_sub(2));
    let words = format!("CLIENT PAUSE {what} at server {}", node.name);
    Ok(Begun::until(vec![(words, no_writes(node))], move |scene| {
        let (node, until) = (&scene.world.nodes[place], Moment::now().min(by_itself));
        node.say("CLIENT UNPAUSE")?;
        let server = node.name.clone();
        Ok(if node.process() == process { Progress::Forbade { from, until, server } } else { Progress::Over })
    }))
}

fn no_writes(node: &Node) -> Reach {
    Reach::NoWrites { server: node.name.clone() }
}

fn sleep(scene: &mut Scene, place: usize) -> Result<Begun, String> {
    let node = &scene.world.nodes[place];
    node.say("DEBUG SLEEP 0.1")?;
    Ok(Begun::done(vec![(format!("DEBUG SLEEP at server {}", node.name), no_writes(node))]))
}

/// A script that has no end, until it is killed.
fn be_busy(scene: &mut Scene, place: usize) -> Result<Begun, String> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let node = &scene.world.nodes[place];
    let mut client = Client::connect_for(&node.socket(), PATIENCE).map_err(|error| error.to_string())?;
    let script = std::thread::spawn(move || client.try_run(&["EVAL", "while true do end", "0"]).map(drop));
    let effects = vec![(format!("server {} is busy with a script", node.name), no_writes(node))];
    Ok(Begun::until(effects, move |scene| {
        // There is none yet, or none any more.
        let _ = scene.world.nodes[place].say("SCRIPT KILL");
        Ok(if script.is_finished() { Progress::Over } else { Progress::NotYet })
    }))
}

fn save(scene: &mut Scene, place: usize, command: &str) -> Result<Begun, String> {
    let node = &scene.world.nodes[place];
    match node.say(command) {
        // The last one is not done yet.
        Err(Refusal::Plain(why)) if why.contains("in progress") => Ok(Begun::nothing()),
        Err(why) => Err(why.into()),
        Ok(_) => Ok(Begun::done(vec![(format!("{command} at server {}", node.name), Reach::Nobody)])),
    }
}
