//! Failovers alone. Most are to a replica that lacks the last grants. They have three acts: the network between the
//! master and its replicas loses what they send, so only the master knows what it grants meanwhile; the master is killed,
//! stalls, or lives on, cut off; and a replica takes over with what it has. The other failovers are planned, and the
//! server promises that nothing is lost.
//!
//! Nothing else troubles the servers meanwhile, so a second holder of a lock can only come from the failover. If the
//! servers are protected, there must be no second holder, and the checker excuses nothing.

use super::replicated::clocks_apart;
use super::{AT_ONCE, Begun, Class, Effects, Kind, Outcome, Progress, Scene, kind, processes};
use crate::history::{Moment, Promotion, Reach, Record};
use crate::observer::sample;
use crate::worlds::{Node, Play, World, WorldKind};
use rlock_testing::ServerVersion;
use rlock_testing::network::{Order, Sender};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const TOPOLOGY: Class = Class::Topology;

const KILL: Kind = kind("killed", TOPOLOGY, 4, AT_ONCE, |scene| begin(scene, "killed", Cut::BothWays, Fate::Dies));
const FREEZE: Kind =
    kind("stalled", TOPOLOGY, 3, AT_ONCE, |scene| begin(scene, "stalled", Cut::BothWays, Fate::Stalls));
const CUT_OFF: Kind = kind("cut off, lives on", TOPOLOGY, 4, AT_ONCE, |scene| {
    begin(scene, "cut off, lives on", Cut::BothWays, Fate::LivesOn)
});
const DEAF_REPLICA: Kind =
    kind(NO_CHANGES, TOPOLOGY, 2, AT_ONCE, |scene| begin(scene, NO_CHANGES, Cut::Changes, Fate::Dies));
const DEAF_MASTER: Kind =
    kind(NO_WORD, TOPOLOGY, 1, AT_ONCE, |scene| begin(scene, NO_WORD, Cut::Confirmations, Fate::Dies));

const NO_CHANGES: &str = "killed, the replica did not hear it";
const NO_WORD: &str = "killed, it did not hear the replica";

/// Failovers that a server carries out by itself on command.
const FAILOVER: &str = "FAILOVER";
const COORDINATED: &str = "SENTINEL FAILOVER COORDINATED";
const CLUSTER_FAILOVER: &str = "CLUSTER FAILOVER";
const SHUTDOWN_FAILOVER: &str = "SHUTDOWN FAILOVER";

/// The failovers in which the server promises that nothing is lost.
pub const PLANNED: [&str; 4] = [FAILOVER, COORDINATED, CLUSTER_FAILOVER, SHUTDOWN_FAILOVER];

const BY_FAILOVER: Kind = kind(FAILOVER, TOPOLOGY, 1, AT_ONCE, |scene| {
    hand_over(scene, FAILOVER, |world, old, _| Ok(world.nodes[old].say("FAILOVER TIMEOUT 5000").map(drop)?))
});
const BY_COORDINATION: Kind = kind(COORDINATED, TOPOLOGY, 2, AT_ONCE, |scene| {
    hand_over(scene, COORDINATED, |world, _, _| world.fail_over_by_sentinels(&["COORDINATED"]))
});
const BY_CLUSTER_FAILOVER: Kind = kind(CLUSTER_FAILOVER, TOPOLOGY, 1, AT_ONCE, |scene| {
    hand_over(scene, CLUSTER_FAILOVER, |world, _, new| Ok(world.nodes[new].say("CLUSTER FAILOVER").map(drop)?))
});
const BY_SHUTDOWN: Kind = kind(SHUTDOWN_FAILOVER, TOPOLOGY, 2, AT_ONCE, |scene| {
    hand_over(scene, SHUTDOWN_FAILOVER, |world, old, _| world.nodes[old].shut_down("SHUTDOWN FAILOVER"))
});

/// The failovers that the server under test can have in this kind of world.
pub fn kinds(kind: WorldKind) -> Vec<Kind> {
    let mut kinds = vec![KILL, FREEZE, CUT_OFF, DEAF_REPLICA, DEAF_MASTER];
    kinds.extend(match kind {
        WorldKind::Cluster => vec![BY_CLUSTER_FAILOVER, BY_SHUTDOWN],
        WorldKind::Sentinel => vec![BY_COORDINATION],
        _ => vec![BY_FAILOVER],
    });
    let lacks = lacks();
    kinds.retain(|kind| !lacks.contains(&kind.name));
    kinds
}

/// The planned failovers that the server under test does not know.
pub fn lacks() -> Vec<&'static str> {
    let version = ServerVersion::under_test();
    let since = |major, minor| version.valkey && (version.major, version.minor) >= (major, minor);
    let all = [(COORDINATED, since(9, 1)), (SHUTDOWN_FAILOVER, since(9, 0))];
    all.into_iter().filter(|(_, is_known)| !is_known).map(|(name, _)| name).collect()
}

/// Faults of clients alone, which may happen at the same time.
pub const CONCURRENT: &[Kind] = processes::KINDS;

/// How long only the data is lost, before anything else happens: less than a protected master takes to stop, so it grants locks
/// up to its end.
const CUT_MS: (u64, u64) = (600, 1_500);

/// Percentage of takeovers in a cluster or by sentinels that are on command: at once, rather than after the time for
/// which a server has to be silent.
const ON_COMMAND: u8 = 70;

/// When the harness promotes a replica although the old master lives on. A protected master has certainly stopped at that
/// time: the settings promise that after the lag, 1 s, plus 4 s.
const STOPPED_MS: (u64, u64) = (5_000, 5_400);

/// How long there are two masters after that.
const DIVIDED_MS: (u64, u64) = (500, 2_000);

/// Servers give up a planned failover sooner than this.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(15);

/// Which data between a master and its replicas is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    BothWays,
    /// The replica does not hear the master, but the master still counts it as a good replica.
    Changes,
    /// The master does not hear the replica, which has every grant.
    Confirmations,
}

/// What happens to the master.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Dies,
    Stalls,
    LivesOn,
    /// It hands over to its replica.
    Planned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Only the master knows what it grants.
    Cut,
    /// There is a new master. If the old one lives on, it keeps the clients of the first line.
    Promoted,
    /// The sentinels or the cluster promote a replica.
    Awaited,
    /// Another server is the master; the old one may not know that yet.
    Replaced,
    /// The old master knows that it was replaced.
    Demoted,
}

struct Failover {
    name: &'static str,
    fate: Fate,
    act: Act,
    until: Instant,
    divided: Duration,
    old: usize,
    /// The replica that takes over, if that is known beforehand.
    new: usize,
    /// The replica takes over on command.
    is_manual: bool,
    server: String,
    /// The last moment without a promoted replica.
    looked: Moment,
}

fn begin(scene: &mut Scene, name: &'static str, cut: Cut, fate: Fate) -> Outcome {
    let (old, new) = masters(scene)?;
    let (world, random) = (&scene.world, &mut scene.random);
    let lasts = Duration::from_millis(random.between(match (fate, world.kind, world.play) {
        (Fate::LivesOn, WorldKind::Replicated, Play::Protected) => STOPPED_MS,
        // The sentinels and the other nodes decide.
        (Fate::LivesOn, WorldKind::Sentinel | WorldKind::Cluster, _) => AT_ONCE,
        _ => CUT_MS,
    }));
    cut_off(world, old, cut, fate);
    let server = world.nodes[old].name.clone();
    let words =
        format!("no replica hears of server {server} any more, which is {name} after {lasts:?}, and is replaced");
    let is_covered = world.play == Play::Protected;
    let effects = vec![
        (words, Reach::Failover { server: server.clone(), is_covered }),
        (format!("the clocks of server {server} and of others differ"), Reach::ClocksApart { server: server.clone() }),
    ];
    let lives_on = fate == Fate::LivesOn;
    let divided_ms = if lives_on { random.between(DIVIDED_MS) } else { 0 };
    let (until, divided) = (Instant::now() + lasts, Duration::from_millis(divided_ms));
    let is_manual = !lives_on && random.is(ON_COMMAND);
    let (act, looked) = (Act::Cut, Moment::now());
    let mut failover = Failover { name, fate, act, until, divided, old, new, is_manual, server, looked };
    Ok(Begun::until(effects, move |scene| failover.go_on(scene)))
}

fn cut_off(world: &World, old: usize, cut: Cut, fate: Fate) {
    let orders: &[Order] = match (fate, cut) {
        (Fate::LivesOn, _) if world.kind != WorldKind::Cluster => &Order::LOSE_ALL,
        (_, Cut::BothWays) => &Order::LOSE_ALL_OF_REPLICAS,
        (_, Cut::Changes) => &[Order::LoseOfReplicas(Sender::Server)],
        (_, Cut::Confirmations) => &[Order::LoseOfReplicas(Sender::Client)],
    };
    orders.iter().for_each(|order| world.line_to(old).obey(*order));
    if fate == Fate::LivesOn && world.kind == WorldKind::Cluster {
        world.cut_off_bus(old);
    }
}

/// `how` makes a server hand over: it gets the place of the master and of its replica.
fn hand_over(
    scene: &mut Scene,
    name: &'static str,
    how: fn(&mut World, usize, usize) -> Result<(), String>,
) -> Outcome {
    let (old, new) = masters(scene)?;
    let looked = Moment::now();
    how(scene.world, old, new)?;
    let world = &scene.world;
    let server = world.nodes[old].name.clone();
    let effects = planned(world, name, old);
    let until = Instant::now() + GIVEN_UP_AFTER;
    let (fate, act, divided, is_manual) = (Fate::Planned, Act::Awaited, Duration::ZERO, true);
    let mut failover = Failover { name, fate, act, until, divided, old, new, is_manual, server, looked };
    Ok(Begun::until(effects, move |scene| failover.go_on(scene)))
}

/// The effects of a planned failover. It excuses nothing, except that without a grace leases end by the new master's clock.
fn planned(world: &World, name: &str, old: usize) -> Effects {
    let server = &world.nodes[old].name;
    let mut effects = if world.play == Play::Protected { Vec::new() } else { clocks_apart(world, old) };
    effects.push((format!("{name} of server {server}"), Reach::Failover { server: server.clone(), is_covered: true }));
    effects.push((format!("{name}: the clocks differ"), Reach::ClocksApart { server: server.clone() }));
    effects
}

/// A master, and a replica of it.
fn masters(scene: &mut Scene) -> Result<(usize, usize), String> {
    let old = scene.a_master();
    let world = &scene.world;
    let replicas = world.replicas_of(old);
    let new = *replicas.first().ok_or("no replica follows")?;
    if world.kind != WorldKind::Cluster && replicas.len() < world.nodes.len() - 1 {
        return Err("not all replicas follow yet".to_owned());
    }
    Ok((old, new))
}

impl Failover {
    /// The next step. A failed step can be repeated.
    fn go_on(&mut self, scene: &mut Scene) -> Result<Progress, String> {
        let before = self.act;
        let world = &mut *scene.world;
        self.act = match before {
            Act::Cut | Act::Promoted if Instant::now() < self.until => before,
            Act::Cut => self.strike(scene)?,
            Act::Promoted => self.unite(world),
            Act::Awaited if self.is_given_up() => {
                world.start_again(self.old)?;
                return Ok(Progress::Over);
            }
            Act::Awaited => self.watch(scene)?,
            Act::Replaced => self.bring_back(world)?,
            Act::Demoted => return self.settle(world),
        };
        Ok(if self.act == Act::Demoted && before != Act::Demoted { Progress::Harmless } else { Progress::NotYet })
    }

    /// Whether a planned failover has come to nothing.
    fn is_given_up(&self) -> bool {
        self.fate == Fate::Planned && Instant::now() > self.until
    }

    fn strike(&mut self, scene: &mut Scene) -> Result<Act, String> {
        let world = &mut *scene.world;
        match self.fate {
            Fate::Dies => world.nodes[self.old].kill(),
            Fate::Stalls => world.nodes[self.old].freeze(),
            Fate::LivesOn | Fate::Planned => {}
        }
        self.looked = Moment::now();
        match world.kind {
            WorldKind::Cluster if self.is_manual => drop(world.nodes[self.new].say("CLUSTER FAILOVER TAKEOVER")?),
            // This may fail, since the sentinels may be about to do it by themselves.
            WorldKind::Sentinel if self.is_manual => drop(world.fail_over_by_sentinels(&[])),
            WorldKind::Replicated => drop(world.nodes[self.new].say("REPLICAOF NO ONE")?),
            _ => {}
        }
        self.watch(scene)
    }

    fn watch(&mut self, scene: &mut Scene) -> Result<Act, String> {
        let looked = Moment::now();
        let Some(new) = self.new_master(scene.world) else {
            self.looked = looked;
            return Ok(Act::Awaited);
        };
        self.note(&scene.world.nodes[new], scene)?;
        self.new = new;
        let world = &mut *scene.world;
        match (self.fate, world.kind) {
            // Clients find the new master by themselves.
            (_, WorldKind::Cluster) => {}
            (Fate::LivesOn, _) => world.divide(self.old, new),
            _ => world.make_master(new),
        }
        self.until = Instant::now() + self.divided;
        Ok(Act::Promoted)
    }

    /// The new master, if there is one yet. The sentinels choose among several replicas.
    fn new_master(&self, world: &World) -> Option<usize> {
        let is_master = |place: usize| world.nodes[place].is_master().unwrap_or(false);
        match world.kind {
            WorldKind::Sentinel => world.others(self.old).map(|(place, _)| place).find(|place| is_master(*place)),
            _ => Some(self.new).filter(|place| is_master(*place)),
        }
    }

    /// Records what the new master knows of locks, before anything else happens.
    fn note(&self, node: &Node, scene: &Scene) -> Result<(), String> {
        let mut knew = BTreeMap::new();
        for lock in scene.world.makeup().popular() {
            let asked = Moment::now();
            let reply = node.run(&["RLOCK.INSPECT", &lock, "COUNT", "500"]);
            // Other nodes of a cluster have the other locks.
            let Some(seen) = reply.ok().and_then(|it| sample(&it, (asked, Moment::now()), &node.name, &lock)) else {
                continue;
            };
            knew.insert(lock, seen.holders.into_iter().map(|holding| holding.holder).collect());
        }
        if knew.is_empty() {
            return Err(format!("server {} does not say what it knows", node.name));
        }
        let (from, until, by, server) = (self.looked, Moment::now(), self.name.to_owned(), node.name.clone());
        scene.journal.write(&Record::Promoted(Promotion { from, until, server, by, knew }));
        Ok(())
    }

    /// From now on the clients of the first line find the new master, too.
    fn unite(&self, world: &mut World) -> Act {
        match world.kind {
            // A sentinel that does not know the new master yet would lead clients back when the old one wakes.
            WorldKind::Sentinel if !world.all_sentinels_name(self.new) => return Act::Promoted,
            WorldKind::Cluster => {}
            _ => world.make_master(self.new),
        }
        Act::Replaced
    }

    /// Finds the masters. The fault itself reports that the old one is no longer a master.
    fn look_around(&self, world: &mut World) {
        world.look_around();
        world.changes.retain(|change| !change.servers.contains(&self.server));
    }

    /// When the old master wakes, it believes for a moment that it is still the master. No client gets what it grants then:
    /// its clients were redirected before, or are cut off from it here.
    fn bring_back(&self, world: &mut World) -> Result<Act, String> {
        if world.kind == WorldKind::Cluster {
            world.line_to(self.old).obey(Order::Refuse);
            world.line_to(self.old).obey(Order::Cut);
            world.heal_bus();
        }
        world.nodes[self.old].thaw();
        world.start_again(self.old)?;
        self.look_around(world);
        if world.kind == WorldKind::Replicated {
            world.follow(world.master())?;
        }
        // Sentinels reach it by this connection.
        if world.kind == WorldKind::Sentinel {
            world.line_to(self.old).obey(Order::Heal);
        }
        if world.nodes[self.old].is_master()? || world.masters.iter().any(|place| world.has_grace(*place)) {
            return Ok(Act::Replaced);
        }
        world.line_to(self.old).obey(Order::Heal);
        Ok(Act::Demoted)
    }

    fn settle(&self, world: &mut World) -> Result<Progress, String> {
        self.look_around(world);
        Ok(Progress::over_if(world.replicas().into_iter().all(|place| world.nodes[place].follows())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_is_played_where_the_server_knows_it() {
        let all: Vec<_> = WorldKind::WITH_REPLICAS.into_iter().flat_map(kinds).map(|kind| kind.name).collect();
        for name in PLANNED {
            assert_ne!(all.contains(&name), lacks().contains(&name), "{name}");
        }
    }
}
