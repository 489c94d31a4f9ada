//! A server's clock that is set.

use super::{Begun, Scene, a_master, answers_twice};
use crate::history::Reach;
use rlock_testing::Random;

const STEPS_MS: (u64, u64) = (200, 2_000);

pub fn begin(scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let place = a_master(scene, random);
    let by_ms = i64::try_from(random.between(STEPS_MS)).expect("a few seconds");
    let so_far = scene.world.nodes[place].clock().map_or(0, |clock| clock.offset_ms());
    // Rather back to the right time than ever farther away from it.
    let by_ms = if so_far > 0 || (so_far == 0 && random.is(50)) { -by_ms } else { by_ms };
    scene.world.step_clock(place, by_ms)?;
    let server = scene.world.nodes[place].name.clone();
    let words = format!("the clock of server {server} is set by {by_ms} ms");
    // It knows of it once it has done something.
    Ok(Begun::until(vec![(words, Reach::ClockStep { server, by_ms })], answers_twice(place)))
}
