//! Failovers to a replica that lacks what was granted last, each in three acts: the line between the master and its
//! replicas is held, so that what is granted meanwhile is known to the master alone; the master is killed, stands still, or
//! lives on, cut off; and a replica takes over with what it has.
//!
//! Nobody else troubles the servers then, so two holders of one lock are the failover's doing. Where servers are protected
//! there must be none, and so the checker forgives nothing.

use super::{AT_ONCE, Begun, Class, Kind, Outcome, Progress, Scene, crews, kind};
use crate::history::Reach;
use crate::worlds::{LONGEST_LEASE_MS, Play, World, WorldKind};
use rlock_testing::Random;
use rlock_testing::network::Order;
use std::time::{Duration, Instant};

const KILL: Kind =
    kind("kill a master whose line is held", Class::Topology, 4, AT_ONCE, |scene| begin(scene, Fate::Dies));
const FREEZE: Kind =
    kind("freeze a master whose line is held", Class::Topology, 2, AT_ONCE, |scene| begin(scene, Fate::StandsStill));
const CUT_OFF: Kind =
    kind("cut off a master that lives on", Class::Topology, 2, AT_ONCE, |scene| begin(scene, Fate::LivesOn));

/// What may happen, of which one comes in each round.
pub fn kinds(kind: WorldKind) -> &'static [Kind] {
    match kind {
        // Its nodes speak by a bus that leads through no network of ours, so none can be cut off.
        WorldKind::Cluster => &[KILL, FREEZE],
        _ => &[KILL, FREEZE, CUT_OFF],
    }
}

/// What else may happen beside it: to clients alone.
pub const BESIDE: &[Kind] = crews::KINDS;

/// Of a hundred lines that are held, those for longer than any lease: the replica has heard of nothing that is held then.
/// Of the others the master ends while it is sure of its replicas, so that it is the grace that matters.
const HELD_LONG: u8 = 40;
const LONG_MS: (u64, u64) = (LONGEST_LEASE_MS + 100, LONGEST_LEASE_MS + 600);
const SHORT_MS: (u64, u64) = (300, 900);

/// Of a hundred masters of a cluster, those whose replica is told to take over at once. Its nodes take longer than most
/// leases to agree on that.
const TOLD_TO_TAKE_OVER: u8 = 60;

/// When we make a replica the master though the old one lives on: once that one has stopped for sure, which the settings
/// promise after the lag of 1 s and 4 s.
const STOPPED_MS: (u64, u64) = (5_000, 5_400);

/// For how long there are two masters then.
const DIVIDED_MS: (u64, u64) = (500, 2_000);

/// What becomes of the master.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Dies,
    StandsStill,
    LivesOn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// The master knows what no replica does.
    Held,
    /// Its replica is made a master by us, and clients of the second line find that one.
    Divided,
    /// Others make a replica the master.
    Awaited,
    /// Another one is the master, and this one may not know it.
    Replaced,
    /// It does.
    Demoted,
}

struct Failover {
    fate: Fate,
    act: Act,
    until: Instant,
    divided: Duration,
    old: usize,
    /// Who takes over, where that is known beforehand.
    new: usize,
    /// It is told so, in a cluster.
    is_told: bool,
    server: String,
}

fn begin(scene: &mut Scene, fate: Fate) -> Outcome {
    let old = scene.a_master();
    let (world, random) = (&scene.world, &mut scene.random);
    let replicas = world.replicas_of(old);
    let new = *replicas.first().ok_or("no replica follows")?;
    if world.kind != WorldKind::Cluster && replicas.len() < world.nodes.len() - 1 {
        return Err("not all replicas follow yet".to_owned());
    }
    let held = held(world.kind, fate, random);
    let orders: &[Order] = match fate {
        Fate::LivesOn => &Order::LOSE_ALL,
        Fate::Dies | Fate::StandsStill => &[Order::LoseOfReplicas],
    };
    orders.iter().for_each(|order| world.line_to(old).obey(*order));
    let server = world.nodes[old].name.clone();
    let what = match fate {
        Fate::Dies => "is killed",
        Fate::StandsStill => "stands still",
        Fate::LivesOn => "lives on",
    };
    let words = format!("no replica hears of server {server} any more, which {what} after {held:?}, and is replaced");
    let is_covered = world.play == Play::Protected;
    let effects = vec![
        (words, Reach::Failover { server: server.clone(), is_covered }),
        (format!("the clocks of server {server} and of others differ"), Reach::ClocksApart { server: server.clone() }),
    ];
    let (until, divided) = (Instant::now() + held, Duration::from_millis(random.between(DIVIDED_MS)));
    let is_told = random.is(TOLD_TO_TAKE_OVER);
    let mut failover = Failover { fate, act: Act::Held, until, divided, old, new, is_told, server };
    Ok(Begun::until(effects, move |scene| failover.go_on(scene.world)))
}

/// For how long the line is held while all else is as before.
fn held(kind: WorldKind, fate: Fate, random: &mut Random) -> Duration {
    let span = match (fate, kind) {
        (Fate::LivesOn, WorldKind::Replicated) => STOPPED_MS,
        // The sentinels decide.
        (Fate::LivesOn, _) => AT_ONCE,
        _ if random.is(HELD_LONG) => LONG_MS,
        _ => SHORT_MS,
    };
    Duration::from_millis(random.between(span))
}

impl Failover {
    /// The next step. Each can be done again if it failed.
    fn go_on(&mut self, world: &mut World) -> Result<Progress, String> {
        let before = self.act;
        self.act = match before {
            Act::Held | Act::Divided if Instant::now() < self.until => before,
            Act::Held => self.strike(world)?,
            Act::Divided => {
                world.make_master(self.new);
                Act::Replaced
            }
            Act::Awaited => self.watch(world)?,
            Act::Replaced => self.bring_back(world)?,
            Act::Demoted => return self.settle(world),
        };
        Ok(if self.act == Act::Demoted && before != Act::Demoted { Progress::Harmless } else { Progress::NotYet })
    }

    fn strike(&mut self, world: &mut World) -> Result<Act, String> {
        match self.fate {
            Fate::Dies => world.nodes[self.old].kill(),
            Fate::StandsStill => world.nodes[self.old].freeze(),
            Fate::LivesOn => {}
        }
        if world.kind == WorldKind::Cluster && self.is_told {
            world.nodes[self.new].say("CLUSTER FAILOVER TAKEOVER")?;
        }
        if world.kind != WorldKind::Replicated {
            return Ok(Act::Awaited);
        }
        world.nodes[self.new].say("REPLICAOF NO ONE")?;
        if self.fate == Fate::LivesOn {
            world.divide(self.new);
            self.until = Instant::now() + self.divided;
            return Ok(Act::Divided);
        }
        world.make_master(self.new);
        Ok(Act::Replaced)
    }

    fn watch(&mut self, world: &mut World) -> Result<Act, String> {
        self.look_around(world);
        // A node that cannot be asked counts as what it was.
        let is_replaced = match world.kind {
            WorldKind::Cluster => world.nodes[self.new].is_master()?,
            _ => world.master() != self.old,
        };
        Ok(if is_replaced { Act::Replaced } else { Act::Awaited })
    }

    /// Who is a master now. That this one is none any more is told of with the fault.
    fn look_around(&self, world: &mut World) {
        world.look_around();
        world.changes.retain(|change| !change.servers.contains(&self.server));
    }

    /// Clients that were led to the old master have been led elsewhere by now, or are cut off from it before it wakes: it
    /// believes for a moment that it is the master still, and what it grants then nobody hears of.
    fn bring_back(&self, world: &mut World) -> Result<Act, String> {
        if world.kind == WorldKind::Cluster {
            world.line_to(self.old).obey(Order::Refuse);
            world.line_to(self.old).obey(Order::Cut);
        }
        world.nodes[self.old].thaw();
        world.start_again(self.old)?;
        self.look_around(world);
        if world.kind == WorldKind::Replicated {
            world.follow(world.master())?;
        }
        // Sentinels reach it by this line.
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
