//! Faults in the order of a schedule, each beside others that are still in force.

use super::{Begun, Fault, Progress, Scene, servers};
use crate::history::{Journal, Moment, Reach, Record, Trouble};
use crate::worlds::{Change, World};
use rlock_testing::Random;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often it is looked whether something is to begin or to end.
const TICK: Duration = Duration::from_millis(10);

/// How often it is looked who is a master and who has died.
const LOOKS: Duration = Duration::from_millis(200);

/// How long what is in force at the end may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much earlier than the last look a failover may have begun that nobody of us has made: a new master lacks what
/// was not copied to it, and that it had stopped following is seen a while later.
const BEFORE_LOOK: Duration = Duration::from_secs(3);

/// More would come in one burst when a long failover is over.
const MOST_PUT_OFF: usize = 6;

/// What is in force now.
#[derive(Default)]
pub struct Troubles {
    pub running: Vec<Running>,
    /// What has to wait until something else is over.
    pub put_off: VecDeque<Fault>,
    looked: Option<Instant>,
}

pub struct Running {
    fault: Fault,
    began: Moment,
    due: Instant,
    begun: Begun,
    /// Of which another may take over because of it.
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

    /// Whether it is over. What cannot be taken back now can be later; what cannot be at all ends when all is made calm.
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
    /// Begins it, or keeps it until nothing is in force any more that it cannot be beside.
    pub fn begin(&mut self, fault: Fault, scene: &mut Scene) {
        if !self.running.iter().all(|it| it.fault.kind.class.may_be_beside(fault.kind.class)) {
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

    /// Ends what is to end, begins what was put off, and looks after the servers.
    pub fn attend(&mut self, scene: &mut Scene) {
        self.end_those(scene, Instant::now());
        for fault in std::mem::take(&mut self.put_off) {
            self.begin(fault, scene);
        }
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOKS) {
            self.look(scene);
        }
    }

    /// Nothing begins any more. All that is in force ends, by itself or because all is made calm.
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
        // What died by itself is started again: the round goes on, so that more can be learned.
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
        // What one of us has brought about is told of by itself, and with better moments.
        for server in servers.into_iter().filter(|it| !self.running.iter().any(|running| running.servers.contains(it)))
        {
            let reach = Reach::Failover { server, is_covered: false };
            journal.write(&Record::Troubled(Trouble { began, ended, what: what.clone(), reach }));
        }
    }
}

/// Writes down who has become a master since it was looked last, when all else is over.
pub fn tell_changes(world: &mut World, journal: &Journal) {
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
