//! Instructions of a step: the slope between a short run and a long one, in one server.
//!
//! What a run costs at its ends is in both, and so not in the slope. Contenders take turns, as by the clock, although
//! counts hardly move.

use crate::batch::{Batch, Pipe};
use crate::contenders::{
    self, BUSY, Contender, Module, PAIRS, PERMITS, READS, RENEWALS, RLOCK, WRITES, is_measured_with_followers,
};
use crate::counted::{Counted, Scope};
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::{progress, servers};
use rlock_testing::wait_until;

pub const UNIT: &str = "instructions";

/// How many commands are under way at once.
const DEPTH: usize = 64;

/// Pairs, refusals, renewals and the two sides of read-write locks, with nobody listening.
pub fn alone(plan: &Plan, figures: &mut Figures) {
    let mut lab =
        Lab::new(&[Module::None, Module::Rlock, Module::Noop], |module| Counted::start(module, Scope::Everything));
    lab.measure(plan, figures, "pair", &PAIRS.iter().collect::<Vec<_>>());
    figures.profiles.push(lab.profile("A lock cycle", &PAIRS[RLOCK], plan.long));
    lab.measure(plan, figures, "busy", &BUSY.iter().collect::<Vec<_>>());
    figures.profiles.push(lab.profile("A busy lock is asked for", ours(&BUSY), plan.long));
    lab.measure(plan, figures, "renew", &RENEWALS.iter().collect::<Vec<_>>());
    lab.measure(plan, figures, "read", &READS.iter().collect::<Vec<_>>());
    figures.profiles.push(lab.profile("A read cycle", ours(&READS), plan.long));
    lab.measure(plan, figures, "write", &WRITES.iter().collect::<Vec<_>>());
}

/// A permit, beside a plain lock in the same server.
pub fn of_permits(plan: &Plan, figures: &mut Figures) {
    let mut lab = Lab::new(&[Module::None, Module::Rlock], |module| Counted::start(module, Scope::Everything));
    lab.measure(plan, figures, "permit", &PERMITS.iter().collect::<Vec<_>>());
    figures.profiles.push(lab.profile("A permit's cycle", ours(&PERMITS), plan.long));
}

/// The same pairs with an AOF file.
pub fn with_aof(plan: &Plan, figures: &mut Figures) {
    let options = ["--port", "0", "--appendonly", "yes", "--appendfsync", "everysec"];
    let mut lab = Lab::new(&[Module::None, Module::Rlock], |module| Counted::start_with(module, &options));
    lab.measure(plan, figures, "aof", &followed());
    figures.profiles.push(lab.profile("A lock cycle with an AOF file", &PAIRS[RLOCK], plan.long));
}

/// The same pairs with a replica, which is no part of what is counted.
pub fn with_replica(plan: &Plan, figures: &mut Figures) {
    let mut replicas = Vec::new();
    let mut lab = Lab::new(&[Module::None, Module::Rlock], |module| {
        let master = Counted::start_with(module, &[]);
        replicas.push(follow(&master));
        master
    });
    lab.measure(plan, figures, "replica", &followed());
    figures.profiles.push(lab.profile("A lock cycle with one replica", &PAIRS[RLOCK], plan.long));
}

fn followed() -> Vec<&'static Contender> {
    PAIRS.iter().filter(|contender| is_measured_with_followers(contender)).collect()
}

fn ours(contenders: &'static [Contender]) -> &'static Contender {
    contenders.iter().find(|contender| contender.id == "rlock").expect("we are among them")
}

fn follow(master: &Counted) -> Guarded {
    let port = master.server().port().to_string();
    let replica = servers::start_on_port(Module::None, &["--replicaof", "127.0.0.1", &port]);
    let mut client = master.server().client();
    wait_until("the replica follows", || client.say("INFO replication").as_text().contains("state=online"));
    replica
}

/// The servers that the contenders need.
struct Lab {
    servers: Vec<(Module, Counted, Pipe)>,
}

impl Lab {
    fn new(modules: &[Module], mut start: impl FnMut(Module) -> Counted) -> Self {
        let mut started = |&module: &Module| {
            progress::step("starts a server under callgrind");
            let counted = start(module);
            let pipe = Pipe::to(counted.server());
            (module, counted, pipe)
        };
        Self { servers: modules.iter().map(&mut started).collect() }
    }

    fn measure(&mut self, plan: &Plan, figures: &mut Figures, what: &str, contenders: &[&Contender]) {
        for contender in contenders {
            self.prepare(contender);
        }
        for _ in 0..plan.counts {
            for contender in contenders {
                let id = format!("{what}.{}", contender.id);
                progress::step(&id);
                let slope = self.slope(contender, plan);
                figures.add(&id, UNIT, slope);
            }
        }
    }

    fn prepare(&mut self, contender: &Contender) {
        let (_, _, pipe) = self.server_of(contender);
        let mut batch = Batch::default();
        contenders::load_scripts(&mut batch);
        pipe.run(&batch);
        let mut batch = Batch::default();
        (contender.before)(&mut batch);
        pipe.run(&batch);
        self.count(contender, DEPTH);
    }

    fn slope(&mut self, contender: &Contender, plan: &Plan) -> f64 {
        let [short, long] = [plan.short, plan.long].map(|steps| self.count(contender, steps));
        (long - short) / (plan.long - plan.short) as f64
    }

    /// Instructions of so many steps, in a server that is otherwise idle.
    fn count(&mut self, contender: &Contender, steps: usize) -> f64 {
        let batches = batches(contender, steps);
        let (_, counted, pipe) = self.server_of(contender);
        counted.count(|| batches.iter().for_each(|batch| pipe.run(batch)))
    }

    /// Where a step's instructions go.
    fn profile(&mut self, title: &'static str, contender: &Contender, steps: usize) -> Profile {
        let batches = batches(contender, steps);
        let (_, counted, pipe) = self.server_of(contender);
        counted.mark();
        batches.iter().for_each(|batch| pipe.run(batch));
        Profile::of(title, &counted.profile(), steps)
    }

    fn server_of(&mut self, contender: &Contender) -> &mut (Module, Counted, Pipe) {
        self.servers.iter_mut().find(|(module, _, _)| *module == contender.module).expect("a server for each")
    }
}

/// So many steps, each on a lock of its own, in batches of equal depth.
fn batches(contender: &Contender, steps: usize) -> Vec<Batch> {
    let mut batches = vec![Batch::default()];
    for step in 0..steps {
        if batches.last().is_some_and(|batch| batch.commands + 1 >= DEPTH) {
            batches.push(Batch::default());
        }
        (contender.step)(batches.last_mut().expect("one at least"), &format!("lock:{step:07}"));
    }
    batches
}
