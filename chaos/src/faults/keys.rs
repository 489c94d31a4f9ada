//! Faults that change locks by plain commands.

use super::Class::{AllKeys, Keys};
use super::{
    AT_ONCE, Begun, Effects, Kind, Outcome, Progress, Scene, WHILE, changing, kind, may_have_changed, with_effect,
};
use crate::history::Reach;
use crate::plan::locks_with_answers;
use crate::worlds::{Node, World, WorldKind, run_on};
use rlock_testing::Reply;

pub const KINDS: &[Kind] = &[
    kind("delete a lock", Keys, 8, AT_ONCE, |scene| once(scene, "DEL")),
    kind("unlink a lock", Keys, 2, AT_ONCE, |scene| once(scene, "UNLINK")),
    kind("break a lock", Keys, 4, AT_ONCE, |scene| once(scene, "RLOCK.BREAK")),
    kind("shorten a lease", Keys, 4, AT_ONCE, shorten),
    kind("rename a lock", Keys, 3, AT_ONCE, rename),
    kind("overwrite a lock", Keys, 3, (100, 150), overwrite),
    kind("delete an answer", Keys, 2, AT_ONCE, delete_answer),
    kind("flush all", AllKeys, 1, AT_ONCE, |scene| flush(scene, "FLUSHALL")),
    kind("flush all later", AllKeys, 1, AT_ONCE, |scene| flush(scene, "FLUSHALL ASYNC")),
];

/// Not in a cluster.
pub const SWAP: Kind = kind("swap databases", AllKeys, 1, WHILE, swap);

/// A popular lock, and the place of the server that has it.
fn lock(scene: &mut Scene) -> Result<(String, usize), String> {
    let key = scene.random.one_of(&scene.world.makeup().popular());
    let place = owner(scene.world, &key)?;
    Ok((key, place))
}

/// The current owner of the key: another server may have taken over.
fn owner(world: &World, key: &str) -> Result<usize, String> {
    world.owner_of(key).ok_or_else(|| format!("no server has {key} now"))
}

fn reach_of(key: &str) -> Reach {
    Reach::Locks { locks: vec![key.to_owned()], takes_counters: false, takes_answers: false }
}

fn effects(node: &Node, key: &str, command: &str) -> Effects {
    vec![(format!("{command} at server {}", node.name), reach_of(key))]
}

fn once(scene: &mut Scene, command: &str) -> Outcome {
    let (key, place) = lock(scene)?;
    with_effect(scene, place, &format!("{command} {key}"), reach_of(&key))
}

fn delete_answer(scene: &mut Scene) -> Outcome {
    let lock = scene.random.one_of(&locks_with_answers()).name;
    let place = owner(scene.world, &lock)?;
    with_effect(scene, place, &format!("DEL rlock_answer:{{{lock}}}"), Reach::StoredAnswer { lock })
}

/// Its effect comes when the shorter lease ends.
fn shorten(scene: &mut Scene) -> Outcome {
    const LEFT_MS: i64 = 50;
    let (key, place) = lock(scene)?;
    let node = &scene.world.nodes[place];
    let command = format!("PEXPIRE {key} {LEFT_MS}");
    changing(node, &command, effects(node, &key, &command), has_ended(place, LEFT_MS))
}

/// Whether a lease that was `lease_ms` long at the first call has ended by the server's clock.
fn has_ended(place: usize, lease_ms: i64) -> impl FnMut(&mut Scene) -> Result<Progress, String> + 'static {
    let mut end = None;
    move |scene| {
        let node = &scene.world.nodes[place];
        let now = node.time_ms()?;
        let end = *end.get_or_insert(now + lease_ms);
        Ok(Progress::over_if(now > end && node.answers()))
    }
}

/// The renamed key ends with its lease.
fn rename(scene: &mut Scene) -> Outcome {
    let (key, place) = lock(scene)?;
    // Its slot is that of the lock.
    let command = format!("RENAME {key} junk:{}:{{{key}}}", scene.random.draw());
    with_effect(scene, place, &command, reach_of(&key))
}

fn overwrite(scene: &mut Scene) -> Outcome {
    let (key, place) = lock(scene)?;
    let node = &scene.world.nodes[place];
    let command = format!("SET {key} junk PX 100");
    may_have_changed(node.say(&command))?;
    Ok(Begun::until(effects(node, &key, &command), move |scene| {
        let place = owner(scene.world, &key)?;
        let kind = scene.world.nodes[place].text(&format!("TYPE {key}"))?;
        Ok(Progress::over_if(kind != "string"))
    }))
}

fn all_locks() -> Reach {
    Reach::Locks { locks: Vec::new(), takes_counters: true, takes_answers: true }
}

fn flush(scene: &mut Scene, command: &str) -> Outcome {
    let place = scene.a_master();
    with_effect(scene, place, command, all_locks())
}

fn swap(scene: &mut Scene) -> Outcome {
    const SWAP: &str = "SWAPDB 0 1";
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    may_have_changed(node.say(SWAP))?;
    let effects = vec![(format!("{SWAP} at server {}, and back,", node.name), all_locks())];
    Ok(Begun::until(effects, move |scene| swap_back(scene.world, place)))
}

/// Swaps back in one step; locks acquired meanwhile are gone. If another server is the master now, or this one has
/// restarted, it may not know of the first swap. Its locks are gone then, which is no more than the fault has announced.
fn swap_back(world: &World, place: usize) -> Result<Progress, String> {
    let place = if world.kind.has_one_master() { world.master() } else { place };
    let node = &world.nodes[place];
    if world.kind == WorldKind::Single && !node.is_up() {
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
