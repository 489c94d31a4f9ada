//! Whether each server has the module, and all have the same version: a replica without the module cannot grant locks
//! when it becomes the master.

use crate::doctor::finding::Finding;
use crate::doctor::reading::Reading;
use crate::greeting::version;

const LINE: &str = "loadmodule /usr/lib/redis/modules/librlock.so";

pub fn look(reading: &Reading) -> Vec<Finding> {
    let newest = reading.nodes.iter().filter_map(|node| node.greeting()?.module).max();
    let servers: Vec<_> = reading.nodes.iter().filter_map(|node| Some((node, node.greeting()?))).collect();
    let modules = servers.iter().filter_map(|(node, greeting)| {
        let wrong = |what: String| Finding::wrong("module", &node.address, what);
        match (greeting.module, newest, &node.follows) {
            (None, _, None) => Some(wrong("it has no rlock module: it grants no locks".to_owned()).fixed_by(LINE)),
            (None, _, Some(_)) => {
                let what = "it has no rlock module: when it becomes the master, it grants no locks";
                Some(wrong(what.to_owned()).fixed_by(LINE))
            }
            (Some(own), Some(newest), _) if own < newest => {
                let (own, newest) = (version(own), version(newest));
                Some(wrong(format!(
                    "its rlock module is {own}, and others have {newest}: install that, and restart it"
                )))
            }
            _ => None,
        }
    });
    let differs = |at: usize| servers.get(at).is_some_and(|(_, greeting)| greeting.server != servers[0].1.server);
    let versions = servers.iter().enumerate().filter(|(at, _)| differs(*at)).map(|(_, (node, greeting))| {
        let what = format!("it is {}, and others are {}: see docs/servers.md", greeting.server, servers[0].1.server);
        Finding::note("version", &node.address, what)
    });
    modules.chain(versions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::example::{found, seen, watched};

    #[test]
    fn each_server_has_it_and_all_the_same() {
        assert_eq!(look(&watched()), []);
        for (place, module, fix) in [(0, None, Some(LINE)), (2, None, Some(LINE)), (1, Some(99), None)] {
            let mut reading = watched();
            seen(&mut reading, place).greeting.as_mut().unwrap().module = module;
            let findings = look(&reading);
            assert_eq!(found(&findings), [("module", fix)]);
            assert_eq!(findings[0].at, [reading.nodes[place].address.clone()]);
        }
    }
}
