//! A master that its sentinels replace: they take it for dead, whether it is or only stands still for too long, or are told
//! to. Then it is alive, with its queue, and believes for seconds that it is the master still.

use super::{Begun, Progress, Scene, What};
use crate::history::Reach;
use crate::network::ServerClock;
use crate::worlds::{Node, World};
use std::time::{Duration, Instant};

/// How long clients may take to learn what all sentinels know.
const LEARNED: Duration = Duration::from_secs(1);

/// Sentinels give up a failover sooner than that.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(12);

pub fn begin(what: What, scene: &mut Scene) -> Result<Begun, String> {
    let world = &mut scene.world;
    let old = world.master();
    if !world.others(old).all(|(_, node)| node.follows()) {
        return Err("not all replicas follow yet".to_owned());
    }
    let words = match what {
        What::KillMaster => {
            world.nodes[old].kill();
            "kill -9 of the master"
        }
        What::FreezeMaster => {
            world.nodes[old].freeze();
            "the master stands still"
        }
        What::FailOver => {
            world.fail_over_by_sentinels()?;
            "SENTINEL FAILOVER"
        }
        _ => return Err("sentinels do not do that".to_owned()),
    };
    let server = world.nodes[old].name.clone();
    let words = format!("{words}, server {server}, until the sentinels have made another one the master");
    let mut effects = clocks_apart(world, old);
    effects.push((words, Reach::Failover { server: server.clone() }));
    let (mut is_back, mut is_harmless) = (false, false);
    let (begun, mut known_since) = (Instant::now(), None);
    Ok(Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        world.look_around();
        if world.master() == old {
            let is_given_up = what == What::FailOver && begun.elapsed() > GIVEN_UP_AFTER;
            return Ok(if is_given_up { Progress::Over } else { Progress::NotYet });
        }
        if !is_back {
            world.nodes[old].thaw();
            if !world.nodes[old].is_up() {
                world.restart(old)?;
            }
            is_back = true;
        }
        if !is_harmless {
            is_harmless = match what {
                // Its clients know better by then, whatever it believes and grants itself.
                What::FailOver if !world.all_sentinels_name(world.master()) => false,
                What::FailOver => known_since.get_or_insert_with(Instant::now).elapsed() > LEARNED,
                // One that was only frozen believes that it is the master until a sentinel tells it otherwise.
                _ => !world.nodes[old].is_master()?,
            };
            return Ok(if is_harmless { Progress::Harmless } else { Progress::NotYet });
        }
        let master = world.master();
        let all_follow = world.others(master).all(|(_, node)| node.follows());
        if all_follow {
            world.forget_change_of(&server);
        }
        Ok(if all_follow { Progress::Over } else { Progress::NotYet })
    }))
}

/// Leases are replicated as the times at which they end, so where another one takes over they go by its clock.
fn clocks_apart(world: &World, old: usize) -> Vec<(String, Reach)> {
    let offset = |node: &Node| node.clock().map_or(0, ServerClock::offset_ms);
    let (server, by) = (&world.nodes[old].name, offset(&world.nodes[old]));
    let others = world.others(old).map(|(_, node)| offset(node) - by).filter(|by_ms| *by_ms != 0);
    let effect = |by_ms| (format!("leases of server {server} may move by {by_ms} ms"), by_ms);
    others.map(effect).map(|(what, by_ms)| (what, Reach::ClockStep { server: server.clone(), by_ms })).collect()
}
