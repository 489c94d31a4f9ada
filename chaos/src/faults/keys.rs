//! What somebody does to locks with plain commands.

use super::{Begun, Progress, Scene, What, a_master, answers_twice, with_effects};
use crate::history::Reach;
use crate::worlds::{Node, Refusal, World, WorldKind, run_on};
use rlock_testing::Random;
use rlock_testing::Reply;

pub fn begin(what: What, scene: &mut Scene, random: &mut Random) -> Result<Begun, String> {
    let key = format!("hot:{}", random.below(scene.world.makeup().hot.into()));
    let place = match scene.world.kind {
        WorldKind::Majority => a_master(scene, random),
        _ => scene.world.owner_of(&key).ok_or_else(|| format!("nobody has {key} now"))?,
    };
    let node = &scene.world.nodes[place];
    match what {
        What::Delete => once(node, place, &key, &format!("DEL {key}")),
        What::Unlink => once(node, place, &key, &format!("UNLINK {key}")),
        What::Break => once(node, place, &key, &format!("RLOCK.BREAK {key}")),
        What::Shorten => shorten(node, place, key),
        What::Persist => persist(node, place, key),
        What::RenameAway => rename_away(node, place, &key, random.draw()),
        What::Overwrite => overwrite(node, place, key),
        What::FlushAll { later } => flush(scene.world, random, later),
        _ => swap(scene.world, random),
    }
}

fn reach_of(key: &str) -> Reach {
    Reach::Locks { locks: vec![key.to_owned()], takes_counters: false }
}

fn all_locks() -> Reach {
    Reach::Locks { locks: Vec::new(), takes_counters: true }
}

fn effect(node: &Node, key: &str, command: &str) -> Vec<(String, Reach)> {
    vec![(format!("{command} at server {}", node.name), reach_of(key))]
}

/// A command that answers with how many keys it has changed.
fn once(node: &Node, place: usize, key: &str, command: &str) -> Result<Begun, String> {
    with_effects(node.count(command).map(|count| count > 0), place, effect(node, key, command))
}

/// Its effect comes when the shorter lease ends.
fn shorten(node: &Node, place: usize, key: String) -> Result<Begun, String> {
    const LEFT_MS: u64 = 50;
    let command = format!("PEXPIRE {key} {LEFT_MS}");
    let effects = effect(node, &key, &command);
    match node.count(&command) {
        Ok(0) => Ok(Begun::nothing()),
        Err(Refusal::Plain(why)) => Err(why),
        Ok(_) | Err(Refusal::Silence(_)) => {
            let mut over = has_ended(place, LEFT_MS);
            Ok(Begun::until(effects, move |scene| over(scene)))
        }
    }
}

/// Whether a lease that was of so many ms when this is first asked has ended, by the server's clock.
fn has_ended(place: usize, lease_ms: u64) -> impl FnMut(&mut Scene) -> Result<Progress, String> + 'static {
    let mut end = None;
    move |scene| {
        let node = &scene.world.nodes[place];
        let now = node.time_ms()?;
        let end = *end.get_or_insert(now + i64::try_from(lease_ms).expect("a short lease"));
        Ok(if now > end && node.answers() { Progress::Over } else { Progress::NotYet })
    }
}

/// The lock gets a lease again only if it has none: else somebody has it in good order.
fn persist(node: &Node, place: usize, key: String) -> Result<Begun, String> {
    const LEFT_MS: u64 = 200;
    let command = format!("PERSIST {key}");
    let effects = effect(node, &key, &format!("{command}, and PEXPIRE NX afterwards,"));
    match node.count(&command) {
        Ok(0) => return Ok(Begun::nothing()),
        Err(Refusal::Plain(why)) => return Err(why),
        Ok(_) | Err(Refusal::Silence(_)) => {}
    }
    let mut over = None;
    Ok(Begun::until(effects, move |scene| {
        if over.is_none() {
            let place = owner(scene.world, &key, place)?;
            scene.world.nodes[place].say(&format!("PEXPIRE {key} {LEFT_MS} NX"))?;
            over = Some(has_ended(place, LEFT_MS));
        }
        over.as_mut().expect("it was set above")(scene)
    }))
}

/// Who has the key now: others may have taken over.
fn owner(world: &World, key: &str, before: usize) -> Result<usize, String> {
    match world.kind {
        WorldKind::Majority => Ok(before),
        _ => world.owner_of(key).ok_or_else(|| format!("nobody has {key} now")),
    }
}

fn rename_away(node: &Node, place: usize, key: &str, number: u64) -> Result<Begun, String> {
    // Its slot is that of the lock.
    let elsewhere = format!("junk:{number}:{{{key}}}");
    let command = format!("RENAME {key} {elsewhere}");
    match node.say(&command) {
        Err(Refusal::Plain(why)) if why.contains("no such key") => return Ok(Begun::nothing()),
        Err(Refusal::Plain(why)) => return Err(why),
        Ok(_) | Err(Refusal::Silence(_)) => {}
    }
    // If it is refused, it is deleted all the same.
    let _ = node.say(&format!("PEXPIRE {elsewhere} 500"));
    let mut is_done = answers_twice(place);
    let (mut is_harmless, key) = (false, key.to_owned());
    Ok(Begun::until(effect(node, &key, &command), move |scene| {
        if !is_harmless {
            is_harmless = is_done(scene)? == Progress::Over;
            return Ok(if is_harmless { Progress::Harmless } else { Progress::NotYet });
        }
        let place = owner(scene.world, &key, place)?;
        scene.world.nodes[place].say(&format!("DEL {elsewhere}"))?;
        Ok(Progress::Over)
    }))
}

fn overwrite(node: &Node, place: usize, key: String) -> Result<Begun, String> {
    let command = format!("SET {key} junk PX 100");
    if let Err(Refusal::Plain(why)) = node.say(&command) {
        return Err(why);
    }
    Ok(Begun::until(effect(node, &key, &command), move |scene| {
        let place = owner(scene.world, &key, place)?;
        let kind = scene.world.nodes[place].text(&format!("TYPE {key}"))?;
        Ok(if kind == "string" { Progress::NotYet } else { Progress::Over })
    }))
}

fn flush(world: &World, random: &mut Random, later: bool) -> Result<Begun, String> {
    let place = random.one_of(world.masters());
    let command = if later { "FLUSHALL ASYNC" } else { "FLUSHALL" };
    let effects = vec![(format!("{command} at server {}", world.nodes[place].name), all_locks())];
    with_effects(world.nodes[place].say(command).map(|_| true), place, effects)
}

fn swap(world: &World, random: &mut Random) -> Result<Begun, String> {
    const SWAP: &str = "SWAPDB 0 1";
    let place = random.one_of(world.masters());
    let node = &world.nodes[place];
    if let Err(Refusal::Plain(why)) = node.say(SWAP) {
        return Err(why);
    }
    let effects = vec![(format!("{SWAP} at server {}, and back,", node.name), all_locks())];
    let is_lost_if_killed = matches!(world.kind, WorldKind::Single | WorldKind::Majority);
    Ok(Begun::until(effects, move |scene| swap_back(scene.world, place, is_lost_if_killed)))
}

/// In one step; what was locked meanwhile is gone. If another server is the master now, or this one was started anew,
/// it may not know of the first exchange: its locks are gone then, which is no more than was said to be.
fn swap_back(world: &World, place: usize, is_lost_if_killed: bool) -> Result<Progress, String> {
    let place = if world.kind.has_one_master() { world.master() } else { place };
    let node = &world.nodes[place];
    if is_lost_if_killed && !node.is_up() {
        return Ok(Progress::Over);
    }
    let mut client = node.connect()?;
    for command in [&["MULTI"][..], &["SWAPDB", "0", "1"], &["SELECT", "1"], &["FLUSHDB"]] {
        run_on(&mut client, command)?;
    }
    match run_on(&mut client, &["EXEC"])? {
        Reply::List(_) => Ok(Progress::Over),
        other => Err(format!("EXEC: {other:?}")),
    }
}
