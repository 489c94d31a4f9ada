//! What is done to the processes of clients.

use super::{Begun, Progress, Scene, What};
use crate::history::Reach;
use rlock_testing::Random;

pub fn begin(what: What, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let running = scene.crews.running();
    if running.is_empty() {
        return Err("there is no process of clients".to_owned());
    }
    let crew = random.one_of(&running);
    if what == What::KillCrew { kill(scene, crew) } else { freeze(scene, crew) }
}

/// Its leases end by time, as they were promised to.
fn freeze(scene: &mut Scene, crew: usize) -> Result<Begun, String> {
    scene.crews.freeze(crew)?;
    let effects = vec![(format!("the process of crew {crew} stands still"), Reach::Clients)];
    Ok(Begun::until(effects, move |scene| {
        scene.crews.thaw(crew);
        Ok(Progress::Over)
    }))
}

fn kill(scene: &mut Scene, crew: usize) -> Result<Begun, String> {
    // Who is to have been there at the end?
    let too_many = scene.crews.members().len() / 2;
    if scene.crews.killed() >= too_many {
        return Err("half of the processes of clients were killed already".to_owned());
    }
    scene.crews.kill(crew)?;
    Ok(Begun::done(vec![(format!("kill -9 of the process of crew {crew}"), Reach::Clients)]))
}
