//! Faults in the order of a schedule, each beside others that are still in force.

use super::{Begun, Crews, Fault, Progress, Scene, servers};
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
pub struct Troubles {
    journal: Journal,
    running: Vec<Running>,
    /// What has to wait until something else is over.
    put_off: VecDeque<Fault>,
    next_look: Instant,
}

struct Running {
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
            Reach::Failover { server } => Some(server.clone()),
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
    pub fn new(journal: &Journal) -> Self {
        Self { journal: journal.clone(), running: Vec::new(), put_off: VecDeque::new(), next_look: Instant::now() }
    }

    #[cfg(test)]
    pub fn none_in_force(&self) -> bool {
        self.running.is_empty() && self.put_off.is_empty()
    }

    /// Begins it, or keeps it until nothing is in force any more that it cannot be beside.
    pub fn begin(&mut self, fault: Fault, world: &mut World, crews: &mut Crews) {
        if !self.running.iter().all(|it| it.fault.kind.class.may_be_beside(fault.kind.class)) {
            if self.put_off.len() < MOST_PUT_OFF {
                self.put_off.push_back(fault);
            } else {
                self.journal.measured("faults that were left out", 1.0);
            }
            return;
        }
        let (began, mut scene) = (Moment::now(), Scene { world, crews, journal: &self.journal });
        match (fault.kind.begin)(&mut scene, &mut Random::from(fault.seed)) {
            Ok(begun) => self.running.push(Running::new(fault, began, begun)),
            Err(why) => scene.not_made(fault.kind.name, &why),
        }
    }

    /// Ends what is to end, begins what was put off, and looks after the servers.
    pub fn attend(&mut self, world: &mut World, crews: &mut Crews) {
        self.end_those(world, crews, Instant::now());
        for fault in std::mem::take(&mut self.put_off) {
            self.begin(fault, world, crews);
        }
        if Instant::now() >= self.next_look {
            self.look(world);
            self.next_look = Instant::now() + LOOKS;
        }
    }

    /// Nothing begins any more. All that is in force ends, by itself or because all is made calm.
    ///
    /// # Errors
    /// If the servers do not become calm.
    pub fn end_all(&mut self, world: &mut World, crews: &mut Crews) -> Result<(), String> {
        self.put_off.clear();
        let deadline = Instant::now() + PATIENCE;
        while !self.running.is_empty() && Instant::now() < deadline {
            self.end_those(world, crews, deadline);
            std::thread::sleep(TICK);
        }
        let outcome = world.calm();
        self.look(world);
        for mut running in self.running.drain(..) {
            let (what, why) = (running.fault.kind.name, &running.why);
            self.journal.measured(&format!("faults that did not end by themselves: {what}: {why}"), 1.0);
            running.write(&self.journal);
        }
        outcome
    }

    fn end_those(&mut self, world: &mut World, crews: &mut Crews, due_by: Instant) {
        let mut scene = Scene { world, crews, journal: &self.journal };
        self.running.retain_mut(|it| it.due > due_by || !it.end(&mut scene));
    }

    fn look(&mut self, world: &mut World) {
        let began = Moment::now() - LOOKS - BEFORE_LOOK;
        for server in world.watch_for_deaths(&self.journal) {
            let effects = vec![("a server died".to_owned(), Reach::Failover { server: server.clone() })];
            let fault = Fault { kind: servers::KILL, lasts: Duration::ZERO, seed: 0 };
            let begun = Begun::until(effects, move |scene| bring_back(scene.world, &server));
            self.running.push(Running::new(fault, began, begun));
        }
        world.look_around();
        for change in world.take_changes() {
            self.write_change(change);
        }
    }

    fn write_change(&self, Change { since, what, servers }: Change) {
        let (began, ended) = (since - BEFORE_LOOK, Moment::now());
        // What one of us has brought about is told of by itself, and with better moments.
        for server in servers.into_iter().filter(|it| !self.running.iter().any(|running| running.servers.contains(it)))
        {
            let reach = Reach::Failover { server };
            self.journal.write(&Record::Troubled(Trouble { began, ended, what: what.clone(), reach }));
        }
    }
}

/// Writes down who has become a master since it was looked last, when all else is over.
pub fn tell_changes(world: &mut World, journal: &Journal) {
    let troubles = Troubles::new(journal);
    for change in world.take_all_changes() {
        troubles.write_change(change);
    }
}

/// One that died by itself: the round goes on, so that more can be learned.
fn bring_back(world: &mut World, server: &str) -> Result<Progress, String> {
    if let Some(place) = world.nodes.iter().position(|node| node.name == server && !node.is_up()) {
        world.restart(place)?;
    }
    Ok(Progress::Over)
}

/// Plays a schedule to its end, and for as long as the round lasts.
///
/// # Errors
/// If the servers do not become calm afterwards.
pub fn play(
    schedule: Vec<(Duration, Fault)>,
    length: Duration,
    world: &mut World,
    crews: &mut Crews,
    journal: &Journal,
) -> Result<(), String> {
    let begin = Instant::now();
    let mut schedule = VecDeque::from(schedule);
    let mut troubles = Troubles::new(journal);
    while begin.elapsed() < length {
        while schedule.front().is_some_and(|(at, _)| *at <= begin.elapsed()) {
            let (_, fault) = schedule.pop_front().expect("it has a first one");
            troubles.begin(fault, world, crews);
        }
        troubles.attend(world, crews);
        std::thread::sleep(TICK);
    }
    troubles.end_all(world, crews)
}

/// One fault from its beginning to its end, and nothing beside it.
///
/// # Errors
/// If it does not end by itself in time.
#[cfg(test)]
pub fn carry_out(fault: Fault, world: &mut World, crews: &mut Crews, journal: &Journal) -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    let mut troubles = Troubles::new(journal);
    troubles.begin(fault, world, crews);
    while !troubles.none_in_force() {
        if Instant::now() > deadline {
            return Err(format!("{} does not end", fault.kind.name));
        }
        troubles.attend(world, crews);
        std::thread::sleep(TICK);
    }
    Ok(())
}
