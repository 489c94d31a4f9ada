//! A cluster in which replicas take over and slots move.

use super::replicated::takes_over;
use super::servers::KILL_REPLICA;
use super::{AT_ONCE, Begun, Class, Kind, Outcome, Progress, Scene, kind};
use crate::history::Reach;
use crate::worlds::{Node, World};
use rlock_testing::Reply;
use std::time::{Duration, Instant};

pub const KINDS: &[Kind] = &[
    KILL_REPLICA,
    kind("move a slot", Class::Topology, 10, (50, 500), move_a_slot),
    kind("hand over by CLUSTER FAILOVER", Class::Topology, 6, AT_ONCE, |scene| {
        replace(scene, "CLUSTER FAILOVER", true, |world, _, new| {
            world.nodes[new].say("CLUSTER FAILOVER")?;
            Ok(())
        })
    }),
    kind("kill a master", Class::Topology, 4, AT_ONCE, |scene| {
        replace(scene, "kill -9 of a master", false, |world, old, _| {
            world.nodes[old].kill();
            Ok(())
        })
    }),
];

fn id(node: &Node) -> Result<String, String> {
    Ok(node.text("CLUSTER MYID")?)
}

/// The replica of a master, once it follows.
fn replica_of(world: &World, master: usize) -> Result<usize, String> {
    let replica = world.replicas_of(master).first().copied();
    replica.ok_or_else(|| format!("no replica follows server {}", world.nodes[master].name))
}

/// The servers give up a failover sooner than this.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(8);

/// `begin` gets the place of a master and of its replica, which takes over. `is_well`: the master has no fault, so it
/// may refuse to hand over.
fn replace(
    scene: &mut Scene,
    words: &str,
    is_well: bool,
    begin: fn(&mut World, usize, usize) -> Result<(), String>,
) -> Outcome {
    let (old, world) = (scene.a_master(), &mut scene.world);
    let new = replica_of(world, old)?;
    begin(world, old, new)?;
    let begun = Instant::now();
    Ok(Begun::until(takes_over(world, words, old, new), move |scene| {
        let world = &mut scene.world;
        if !world.nodes[new].is_master()? {
            return Ok(Progress::over_if(is_well && begun.elapsed() > GIVEN_UP_AFTER));
        }
        // It may return as a master for a moment.
        world.start_again(old)?;
        world.look_around();
        if world.nodes[old].is_master()? {
            return Ok(Progress::NotYet);
        }
        Ok(if world.nodes[old].follows() { Progress::Over } else { Progress::Harmless })
    }))
}

struct Move {
    slot: i64,
    from: usize,
    to: usize,
    /// How many steps are done: three to the other node, and three back.
    done: u32,
    rests_until: Instant,
}

/// How long a slot rests between the steps of its move, so that clients meet it there.
const REST: Duration = Duration::from_millis(80);

/// A popular lock's slot goes to another master, and comes back.
fn move_a_slot(scene: &mut Scene) -> Outcome {
    let world = &scene.world;
    let key = scene.random.one_of(&world.makeup().popular());
    let from = world.owner_of(&key).ok_or_else(|| format!("no server has {key} now"))?;
    let others: Vec<_> = world.masters.iter().copied().filter(|place| *place != from).collect();
    if others.is_empty() {
        return Err("there is one master only".to_owned());
    }
    let slot = world.nodes[from].count(&format!("CLUSTER KEYSLOT {key}"))?;
    let to = scene.random.one_of(&others);
    let names = [from, to].map(|place| world.nodes[place].name.clone());
    let words = format!("the slot of {key} goes from server {} to {}, and back", names[0], names[1]);
    let mut moving = Move { slot, from, to, done: 0, rests_until: Instant::now() };
    // The lock itself is at one place only at any time. But a client that asks at the new place while the other keys
    // are still at the old one may find it without its read holds.
    let moves = |lock: &String| *lock == key || key.starts_with('{') && lock.starts_with('{');
    let locks = world.makeup().popular().into_iter().filter(moves).collect();
    let reach = Reach::Locks { locks, takes_counters: false, takes_answers: false };
    moving.advance(world)?;
    Ok(Begun::until(vec![(words, reach)], move |scene| moving.advance(scene.world)))
}

impl Move {
    /// The next step. A failed step can be repeated.
    fn advance(&mut self, world: &World) -> Result<Progress, String> {
        if Instant::now() < self.rests_until {
            return Ok(Progress::NotYet);
        }
        let (source, target) = (&world.nodes[self.from], &world.nodes[self.to]);
        match self.done % 3 {
            0 => {
                let [source_id, target_id] = [id(source)?, id(target)?];
                target.say(&format!("CLUSTER SETSLOT {} IMPORTING {source_id}", self.slot))?;
                source.say(&format!("CLUSTER SETSLOT {} MIGRATING {target_id}", self.slot))?;
            }
            1 => move_keys(source, target, self.slot)?,
            _ => {
                // Moves the keys that were created at the old place meanwhile.
                move_keys(source, target, self.slot)?;
                let command = format!("CLUSTER SETSLOT {} NODE {}", self.slot, id(target)?);
                for node in [target, source] {
                    node.say(&command)?;
                }
                // So the other nodes learn of it sooner.
                for place in &world.masters {
                    let _ = world.nodes[*place].say(&command);
                }
                (self.from, self.to) = (self.to, self.from);
            }
        }
        self.done += 1;
        self.rests_until = Instant::now() + REST;
        Ok(Progress::over_if(self.done == 6))
    }
}

fn move_keys(source: &Node, target: &Node, slot: i64) -> Result<(), String> {
    let reply = source.say(&format!("CLUSTER GETKEYSINSLOT {slot} 10000"))?;
    let keys = reply.words();
    if keys.is_empty() {
        return Ok(());
    }
    let port = target.port.to_string();
    let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "2000", "REPLACE", "KEYS"];
    command.extend(keys);
    match source.run(&command)? {
        // NOKEY: all have ended meanwhile.
        Reply::Text(_) => Ok(()),
        other => Err(format!("MIGRATE: {other:?}")),
    }
}
