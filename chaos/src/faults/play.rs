//! The faults of a schedule in order, together with those still in force.

use super::{Begun, Fault, Progress, Scene, servers};
use crate::history::{Journal, Moment, Reach, Record, Trouble};
use crate::worlds::{Change, World};
use rlock_testing::Random;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often beginnings and ends are checked.
const TICK: Duration = Duration::from_millis(10);

/// How often masters and deaths are checked.
const LOOKS: Duration = Duration::from_millis(200);

/// How long the faults in force at the end may take to end by themselves.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much earlier than the last check a failover by the servers themselves may have begun: a new master lacks what was
/// not copied to it, and a check sees only later that it has stopped following.
const BEFORE_LOOK: Duration = Duration::from_secs(3);

/// How many faults wait at most: more would come in one burst when a long failover is over.
const MOST_PUT_OFF: usize = 6;

/// The faults in force now.
#[derive(Default)]
pub struct Troubles {
    pub running: Vec<Running>,
    /// Faults that have to wait until others are over.
    pub put_off: VecDeque<Fault>,
    looked: Option<Instant>,
}

pub struct Running {
    fault: Fault,
    began: Moment,
    due: Instant,
    begun: Begun,
    /// The servers that another one may replace because of this fault.
    servers: Vec<String>,
    /// Why it could not be ended when that was last tried.
    why: String,
}

impl Running {
    fn new(fault: Fault, began: Moment, begun: Begun) -> Self {
        let due = Instant::now() + fault.lasts;
        let forgets = |(_, reach): &(String, Reach)| match reach {
            Reach::Failover { server, .. } => Some(server.clone()),
            _ => None,
        };
        let servers = begun.effects.iter().filter_map(forgets).collect();
        Self { fault, began, due, begun, servers, why: String::new() }
    }

    fn write(&mut self, journal: &Journal) {
        let ended = Moment::now();
        for (what, reach) in self.begun.effects.drain(..) {
            journal.write(&Record::Troubled(Trouble { began: self.began, ended, what, reach }));
        }
    }

    /// Ends the fault if it can, and returns whether it is over. If no call can undo it, restoring everything ends it.
    fn end(&mut self, scene: &mut Scene) -> bool {
        match (self.begun.end)(scene) {
            Err(why) => self.why = why,
            Ok(Progress::NotYet) => {}
            Ok(Progress::Harmless) => self.write(scene.journal),
            Ok(Progress::Over) => {
                self.write(scene.journal);
                return true;
            }
        }
        false
    }
}

impl Troubles {
    /// Begins the fault, or postpones it until no fault that excludes it is in force.
    pub fn begin(&mut self, fault: Fault, scene: &mut Scene) {
        if !self.running.iter().all(|it| it.fault.kind.class.may_overlap(fault.kind.class)) {
            if self.put_off.len() < MOST_PUT_OFF {
                self.put_off.push_back(fault);
            } else {
                scene.journal.measured("faults that were left out", 1.0);
            }
            return;
        }
        let began = Moment::now();
        scene.random = Random::from(fault.seed);
        match (fault.kind.begin)(scene) {
            Ok(begun) => self.running.push(Running::new(fault, began, begun)),
            Err(why) => scene.not_made(fault.kind.name, &why),
        }
    }

    /// Ends what is due, begins postponed faults, and looks after the servers.
    pub fn attend(&mut self, scene: &mut Scene) {
        self.end_those(scene, Instant::now());
        for fault in std::mem::take(&mut self.put_off) {
            self.begin(fault, scene);
        }
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOKS) {
            self.look(scene);
        }
    }

    /// Begins nothing any more. Every fault in force ends, by itself or because everything is restored.
    ///
    /// # Errors
    /// If the servers do not become calm.
    pub fn end_all(&mut self, scene: &mut Scene) -> Result<(), String> {
        self.put_off.clear();
        let deadline = Instant::now() + PATIENCE;
        while !self.running.is_empty() && Instant::now() < deadline {
            self.end_those(scene, deadline);
            std::thread::sleep(TICK);
        }
        let outcome = scene.world.calm();
        self.look(scene);
        for mut running in self.running.drain(..) {
            let (what, why) = (running.fault.kind.name, &running.why);
            scene.journal.measured(&format!("faults that did not end by themselves: {what}: {why}"), 1.0);
            running.write(scene.journal);
        }
        outcome
    }

    fn end_those(&mut self, scene: &mut Scene, due_by: Instant) {
        self.running.retain_mut(|it| it.due > due_by || !it.end(scene));
    }

    fn look(&mut self, Scene { world, journal, .. }: &mut Scene) {
        self.looked = Some(Instant::now());
        let began = Moment::now() - LOOKS - BEFORE_LOOK;
        // A server that died by itself is started again: the round goes on, so that it shows more.
        for place in world.watch_for_deaths(journal) {
            let server = world.nodes[place].name.clone();
            let effects = vec![("a server died".to_owned(), Reach::Failover { server, is_covered: false })];
            let fault = Fault { kind: servers::KILL, lasts: Duration::ZERO, seed: 0 };
            let begun = Begun::until(effects, move |scene| scene.world.start_again(place).map(|()| Progress::Over));
            self.running.push(Running::new(fault, began, begun));
        }
        world.look_around();
        for change in world.take_changes() {
            self.write_change(change, journal);
        }
    }

    fn write_change(&self, Change { since, what, servers }: Change, journal: &Journal) {
        let (began, ended) = (since - BEFORE_LOOK, Moment::now());
        // A fault records its own failovers, with more exact moments.
        for server in servers.into_iter().filter(|it| !self.running.iter().any(|running| running.servers.contains(it)))
        {
            let reach = Reach::Failover { server, is_covered: false };
            journal.write(&Record::Troubled(Trouble { began, ended, what: what.clone(), reach }));
        }
    }
}

/// At the end, records which servers have become masters since the last check.
pub fn record_changes(world: &mut World, journal: &Journal) {
    for change in std::mem::take(&mut world.changes) {
        Troubles::default().write_change(change, journal);
    }
}

/// Plays a schedule to its end, and for as long as the round lasts.
///
/// # Errors
/// If the servers do not become calm afterwards.
pub fn play(schedule: Vec<(Duration, Fault)>, length: Duration, scene: &mut Scene) -> Result<(), String> {
    let begin = Instant::now();
    let mut schedule = VecDeque::from(schedule);
    let mut troubles = Troubles::default();
    while begin.elapsed() < length {
        while schedule.front().is_some_and(|(at, _)| *at <= begin.elapsed()) {
            let (_, fault) = schedule.pop_front().expect("it has a first one");
            troubles.begin(fault, scene);
        }
        troubles.attend(scene);
        std::thread::sleep(TICK);
    }
    troubles.end_all(scene)
}
