//! What is compared: the commands that each contender sends for one step, and the instructions that a step takes in the
//! server. 64 commands are under way at once.

use crate::batch::{Batch, Pipe};
use crate::counted::{Counted, Scope, UNIT};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::Row;
use crate::servers::Module;
use redis::Script;
use rlock_testing::{Server, scripts};

/// As long as Redisson's holders are: a UUID and a thread.
pub const HOLDER: &str = "b983c153-7421-469a-addb-44fb92259a1b:42";
pub const LEASE: &str = "30000";
/// A lease that outlives each measurement.
pub const LONG_LEASE: &str = "6000000";

pub const SCRIPTS: &str = "Redisson's scripts, EVALSHA";

/// The first of a list is ours.
pub struct Contender {
    id: &'static str,
    name: &'static str,
    module: Module,
    /// Sent once, before the first step.
    before: fn(&mut Batch),
    /// One step, on the lock of this name.
    step: fn(&mut Batch, &str),
}

pub const fn contender(
    id: &'static str,
    name: &'static str,
    module: Module,
    before: fn(&mut Batch),
    step: fn(&mut Batch, &str),
) -> Contender {
    Contender { id, name, module, before, step }
}

/// Nothing is sent before the first step.
pub fn nothing(_: &mut Batch) {}

pub fn by_hash(batch: &mut Batch, script: &str, keys: &[&str], arguments: &[&str]) {
    let (hash, count) = (Script::new(script).get_hash().to_owned(), keys.len().to_string());
    batch.add(&[&["EVALSHA", &hash, count.as_str()][..], keys, arguments].concat());
}

/// Where Redisson publishes the releases of a lock.
pub fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

/// A line of the table for each alternative, with the bars by their ids.
pub fn rows(what: &str, id: &str, contenders: &[Contender], bars: &[(&str, f64)]) -> Vec<Row> {
    let [ours, others @ ..] = contenders else { return Vec::new() };
    let row = |other: &Contender| {
        let row = Row::compare(what, &format!("{id}.{}", ours.id), other.name, &format!("{id}.{}", other.id));
        match bars.iter().find(|(id, _)| *id == other.id) {
            Some((_, bar)) => row.bar(*bar),
            None => row,
        }
    };
    others.iter().map(row).collect()
}

/// Servers under callgrind, one without the module and one with it.
pub struct Lab([(Module, Counted, Pipe); 2]);

const DEPTH: usize = 64;

impl Lab {
    pub fn start(options: &[&str]) -> Self {
        Self([Module::None, Module::Rlock].map(|module| {
            let counted = Counted::start(module, Scope::Everything, options);
            let mut pipe = Pipe::to(&counted.server);
            let mut batch = Batch::default();
            for script in scripts::ALL {
                batch.add(&["SCRIPT", "LOAD", script]);
                // The reply is the hash, in two lines.
                batch.commands += 1;
            }
            pipe.run(&batch);
            (module, counted, pipe)
        }))
    }

    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.0.iter().map(|(_, counted, _)| &counted.server)
    }

    pub fn measure(&mut self, plan: &Plan, figures: &mut Figures, what: &str, contenders: &[Contender]) {
        for contender in contenders {
            let (_, pipe) = self.server_of(contender);
            let mut batch = Batch::default();
            (contender.before)(&mut batch);
            pipe.run(&batch);
            // The first steps in a server cost more or less than later ones, for the other contenders too.
            batches(contender, DEPTH).iter().for_each(|batch| pipe.run(batch));
        }
        for contender in contenders {
            let (counted, pipe) = self.server_of(contender);
            let run = |steps| batches(contender, steps).iter().for_each(|batch| pipe.run(batch));
            for slope in counted.slopes(plan, plan.steps, run) {
                figures.add(&format!("{what}.{}", contender.id), UNIT, slope);
            }
        }
    }

    fn server_of(&mut self, contender: &Contender) -> (&mut Counted, &mut Pipe) {
        let server = self.0.iter_mut().find(|(module, _, _)| *module == contender.module);
        let (_, counted, pipe) = server.expect("a server with the module, or the one without");
        (counted, pipe)
    }
}

/// This many steps, each on a lock of its own, in batches of equal depth.
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
