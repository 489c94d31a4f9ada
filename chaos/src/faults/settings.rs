//! Settings with which a server refuses to write, or does so at another pace.

use super::{Begun, Progress, Scene, What, a_master};
use crate::history::{Moment, Reach};
use rlock_testing::Random;

/// More than any server here has.
const TOO_MANY_REPLICAS: &str = "min-replicas-to-write 9";

pub fn begin(what: What, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let place = a_master(scene, random);
    let hz = format!("hz {}", random.one_of(&[1, 5, 100, 500]));
    let (change, back) = match what {
        What::FullMemory => ("maxmemory 1", "maxmemory 0"),
        What::MissingReplicas => (TOO_MANY_REPLICAS, "min-replicas-to-write 0"),
        _ => (hz.as_str(), "hz 10"),
    };
    let node = &scene.world.nodes[place];
    node.say(&format!("CONFIG SET {change}"))?;
    let (from, server, process) = (Moment::now(), node.name.clone(), node.process());
    let words = format!("CONFIG SET {change} at server {server}");
    let forbids = what != What::Hz;
    let reach = if forbids { Reach::NoWrites { server: server.clone() } } else { Reach::Nobody };
    Ok(Begun::until(vec![(words, reach)], move |scene| {
        let (node, until) = (&scene.world.nodes[place], Moment::now());
        // One that is down begins anew with the settings that it had at first, as does one that was started again.
        if node.is_up() {
            node.say(&format!("CONFIG SET {back}"))?;
        }
        let is_the_same = process.is_some() && node.process() == process;
        let server = server.clone();
        Ok(if forbids && is_the_same { Progress::Forbade { from, until, server } } else { Progress::Over })
    }))
}
