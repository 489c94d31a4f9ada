//! Faults of servers: they are stalled, killed, paused, kept busy, forbidden to write, slowed down, or given another
//! time.

use super::Class::{Clock, Pause, Save, Setting, Still};
use super::{AT_ONCE, Begun, Kind, Outcome, Progress, Scene, WHILE, answers_twice, kind};
use crate::history::{Moment, Reach, Record};
use crate::worlds::{Node, Refusal, WorldKind};
use rlock_testing::Client;
use std::time::Duration;

pub const KINDS: &[Kind] = &[
    kind("freeze a server", Still, 8, (50, 700), freeze),
    kind("pause writes", Pause, 8, AT_ONCE, |scene| pause(scene, "WRITE", PAUSE_BEYOND_MS)),
    // It cannot be ended early: the command for that is paused as well.
    kind("pause all", Pause, 3, AT_ONCE, |scene| pause(scene, "ALL", 0)),
    kind("be busy with a script", Still, 3, (50, 400), be_busy),
    kind("save a snapshot", Save, 2, AT_ONCE, |scene| save(scene, "BGSAVE")),
    kind("rewrite the AOF", Save, 2, AT_ONCE, |scene| save(scene, "BGREWRITEAOF")),
    kind("fill the memory", Setting, 8, WHILE, |scene| set(scene, "maxmemory 1", "maxmemory 0", Some("a full memory"))),
    kind("want more replicas", Setting, 8, WHILE, |scene| {
        set(scene, "min-replicas-to-write 9", "min-replicas-to-write 0", Some("missing replicas"))
    }),
    kind("work at another pace", Setting, 2, (200, 2_000), |scene| {
        let hz = scene.random.one_of(&[1, 5, 100, 500]);
        set(scene, &format!("hz {hz}"), "hz 10", None)
    }),
    kind("step the clock", Clock, 3, AT_ONCE, step_clock),
];

/// For worlds without failover.
pub const KILL: Kind = kind("kill a server", Still, 8, (10, 1_000), kill);

pub const KILL_REPLICA: Kind = kind("kill a replica", super::Class::Topology, 3, (100, 1_000), kill_replica);

const PAUSES_MS: (u64, u64) = (50, 600);

/// How much longer a pause would last if the command that ends it did not come.
const PAUSE_BEYOND_MS: u64 = 300;

const STEPS_MS: (u64, u64) = (200, 2_000);

fn freeze(scene: &mut Scene) -> Outcome {
    let place = usize::try_from(scene.random.below(scene.world.nodes.len() as u64)).expect("a place among few");
    let node = &mut scene.world.nodes[place];
    if !node.is_up() {
        return Err(format!("server {} is down", node.name));
    }
    node.freeze();
    let effects = vec![(format!("server {} is stalled", node.name), no_writes(node))];
    Ok(Begun::undone_by(effects, move |scene| scene.world.nodes[place].thaw()))
}

fn kill(scene: &mut Scene) -> Outcome {
    let place = scene.a_master();
    let node = &mut scene.world.nodes[place];
    let server = node.name.clone();
    let what = format!("kill -9 of server {server}, which is started again on what it left");
    let reach = match scene.world.kind {
        WorldKind::Durable => Reach::Restart { server },
        _ => Reach::Failover { server, is_covered: false },
    };
    let effects = vec![(what.clone(), reach), (what, no_writes(node))];
    node.kill();
    Ok(Begun::until(effects, move |scene| scene.world.start_again(place).map(|()| Progress::Over)))
}

/// The master has everything that the replica had, but is alone while the replica is away.
fn kill_replica(scene: &mut Scene) -> Outcome {
    let replicas = scene.world.replicas();
    if replicas.is_empty() {
        return Err("there is no replica".to_owned());
    }
    let place = scene.random.one_of(&replicas);
    scene.world.nodes[place].kill();
    let what = format!("kill -9 of server {}, a replica, which is started again", scene.world.nodes[place].name);
    Ok(Begun::until(vec![(what, Reach::Nobody)], move |scene| {
        scene.world.start_again(place)?;
        Ok(Progress::over_if(scene.world.nodes[place].follows()))
    }))
}

fn pause(scene: &mut Scene, what: &str, beyond_ms: u64) -> Outcome {
    let (place, lasts_ms) = (scene.a_master(), scene.random.between(PAUSES_MS));
    let node = &scene.world.nodes[place];
    let [due, by_itself] = [lasts_ms, lasts_ms + beyond_ms].map(|ms| Moment::now() + Duration::from_millis(ms));
    node.say(&format!("CLIENT PAUSE {} {what}", lasts_ms + beyond_ms))?;
    let (from, process) = (Moment::now(), node.process());
    let words = format!("CLIENT PAUSE {what} at server {}", node.name);
    Ok(Begun::until(vec![(words, no_writes(node))], move |scene| {
        if Moment::now() < due {
            return Ok(Progress::NotYet);
        }
        // Servers count whole ms.
        let until = Moment::now().min(by_itself - Duration::from_millis(2));
        scene.world.nodes[place].say("CLIENT UNPAUSE")?;
        forbade(scene, place, process, (from, until), "a pause");
        Ok(Progress::Over)
    }))
}

/// Records that the server certainly could not write in that time, if it is still the same process.
fn forbade(scene: &Scene, place: usize, process: Option<u32>, (from, until): (Moment, Moment), why: &str) {
    let node = &scene.world.nodes[place];
    if process.is_some() && node.process() == process {
        let (server, what) = (node.name.clone(), why.to_owned());
        scene.journal.write(&Record::Forbade { from, until, server, what });
    }
}

/// `forbids`: in words, why the server cannot write then.
fn set(scene: &mut Scene, change: &str, back: &'static str, forbids: Option<&'static str>) -> Outcome {
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    node.say(&format!("CONFIG SET {change}"))?;
    let (from, process) = (Moment::now(), node.process());
    let words = format!("CONFIG SET {change} at server {}", node.name);
    let reach = if forbids.is_some() { no_writes(node) } else { Reach::Nobody };
    Ok(Begun::until(vec![(words, reach)], move |scene| {
        let (node, until) = (&scene.world.nodes[place], Moment::now());
        // A server that is down, or was restarted, begins with its initial settings.
        if node.is_up() {
            node.say(&format!("CONFIG SET {back}"))?;
        }
        if let Some(why) = forbids {
            forbade(scene, place, process, (from, until), why);
        }
        Ok(Progress::Over)
    }))
}

fn no_writes(node: &Node) -> Reach {
    Reach::NoWrites { server: node.name.clone() }
}

/// A script that runs until it is killed.
fn be_busy(scene: &mut Scene) -> Outcome {
    const PATIENCE: Duration = Duration::from_secs(60);
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    let mut client = Client::connect_for(&node.socket, PATIENCE).map_err(|error| error.to_string())?;
    let script = std::thread::spawn(move || client.try_run(&["EVAL", "while true do end", "0"]).map(drop));
    let effects = vec![(format!("server {} is busy with a script", node.name), no_writes(node))];
    Ok(Begun::until(effects, move |scene| {
        // This fails if the script has not begun yet, or is over.
        let _ = scene.world.nodes[place].say("SCRIPT KILL");
        Ok(Progress::over_if(script.is_finished()))
    }))
}

fn save(scene: &mut Scene, command: &str) -> Outcome {
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    match node.say(command) {
        // The last save is not done yet.
        Err(Refusal::Plain(why)) if why.contains("in progress") => {}
        outcome => drop(outcome?),
    }
    Ok(Begun::done(vec![(format!("{command} at server {}", node.name), Reach::Nobody)]))
}

/// Steps towards the right time more often than away from it.
fn step_clock(scene: &mut Scene) -> Outcome {
    let place = scene.a_master();
    let by_ms = i64::try_from(scene.random.between(STEPS_MS)).expect("a few seconds");
    let so_far = scene.world.nodes[place].clock.as_ref().map_or(0, |clock| clock.offset_ms());
    let by_ms = if so_far > 0 || (so_far == 0 && scene.random.is(50)) { -by_ms } else { by_ms };
    scene.world.step_clock(place, by_ms)?;
    let server = scene.world.nodes[place].name.clone();
    let words = format!("the clock of server {server} is set by {by_ms} ms");
    // The server reads its clock with the next command.
    Ok(Begun::until(vec![(words, Reach::ClockStep { server, by_ms })], answers_twice(place)))
}
