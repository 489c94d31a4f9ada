//! A master that its sentinels replace: they take it for dead, because it is dead or stalled too long, or they fail
//! over on command. In the last two cases it is alive, with its queue, and believes for seconds that it is still the
//! master.

use super::keys::SWAP;
use super::replicated::clocks_apart;
use super::servers::KILL_REPLICA;
use super::{AT_ONCE, Begun, Class, Kind, Outcome, Progress, Scene, kind};
use crate::history::Reach;
use crate::worlds::World;
use std::time::{Duration, Instant};

pub const KINDS: &[Kind] = &[
    SWAP,
    KILL_REPLICA,
    kind("have sentinels fail over", Class::Topology, 6, AT_ONCE, |scene| {
        replace(scene, "SENTINEL FAILOVER", true, |world, _| world.fail_over_by_sentinels(&[]))
    }),
    kind("kill the master", Class::Topology, 4, AT_ONCE, |scene| {
        replace(scene, "kill -9 of the master", false, |world, old| {
            world.nodes[old].kill();
            Ok(())
        })
    }),
    kind("freeze the master", Class::Topology, 4, AT_ONCE, |scene| {
        replace(scene, "the master is stalled", false, |world, old| {
            world.nodes[old].freeze();
            Ok(())
        })
    }),
];

/// How long clients may take to learn what all sentinels know.
const LEARNED: Duration = Duration::from_secs(1);

/// Sentinels give up a failover sooner than this.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(12);

/// `is_well`: the master has no fault; the sentinels fail over on command.
fn replace(
    scene: &mut Scene,
    words: &str,
    is_well: bool,
    begin: fn(&mut World, usize) -> Result<(), String>,
) -> Outcome {
    let world = &mut scene.world;
    let old = world.master();
    if !world.others(old).all(|(_, node)| node.follows()) {
        return Err("not all replicas follow yet".to_owned());
    }
    begin(world, old)?;
    let server = world.nodes[old].name.clone();
    let words = format!("{words}, server {server}, until the sentinels have made another one the master");
    let mut effects = clocks_apart(world, old);
    effects.push((words, Reach::Failover { server: server.clone(), is_covered: false }));
    let (begun, mut known_since, mut is_harmless) = (Instant::now(), None, false);
    Ok(Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        world.look_around();
        if world.master() == old {
            let is_given_up = is_well && begun.elapsed() > GIVEN_UP_AFTER;
            return Ok(Progress::over_if(is_given_up));
        }
        world.nodes[old].thaw();
        world.start_again(old)?;
        if !is_harmless {
            is_harmless = if is_well {
                // Clients know the new master now, whatever the old one believes and grants.
                world.all_sentinels_name(world.master())
                    && known_since.get_or_insert_with(Instant::now).elapsed() > LEARNED
            } else {
                // A master that was only frozen believes that it is the master until a sentinel demotes it.
                !world.nodes[old].is_master()?
            };
            return Ok(if is_harmless { Progress::Harmless } else { Progress::NotYet });
        }
        let master = world.master();
        let all_follow = world.others(master).all(|(_, node)| node.follows());
        if all_follow {
            // The fault itself reports it.
            world.changes.retain(|change| !change.servers.contains(&server));
        }
        Ok(Progress::over_if(all_follow))
    }))
}
