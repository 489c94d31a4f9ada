//! A master that its sentinels take for dead, whether it is or only stands still for too long.

use super::{Begun, Progress, Scene, What};
use crate::history::Reach;

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
        _ => return Err("sentinels do not do that".to_owned()),
    };
    let server = world.nodes[old].name.clone();
    let what = format!("{words}, server {server}, until the sentinels have made another one the master");
    let effects = vec![(what, Reach::Failover { server })];
    let (mut is_back, mut is_harmless) = (false, false);
    Ok(Begun::until(effects, move |scene| {
        let world = &mut scene.world;
        world.look_around();
        if world.master() == old {
            return Ok(Progress::NotYet);
        }
        if !is_back {
            world.nodes[old].thaw();
            if !world.nodes[old].is_up() {
                world.restart(old)?;
            }
            is_back = true;
        }
        if !is_harmless {
            // One that was only frozen believes that it is the master until a sentinel tells it otherwise.
            is_harmless = !world.nodes[old].is_master()?;
            return Ok(if is_harmless { Progress::Harmless } else { Progress::NotYet });
        }
        let master = world.master();
        let all_follow = world.others(master).all(|(_, node)| node.follows());
        Ok(if all_follow { Progress::Over } else { Progress::NotYet })
    }))
}
