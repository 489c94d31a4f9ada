//! Pairs per second by the clock, with 64 commands under way on each of a few connections, so that the server never waits.
//!
//! The clock lies on a machine that others use. So all contenders take short turns, again and again, and only ratios
//! within a round are looked at.

use crate::batch::{Batch, Pipe};
use crate::contenders::{self, Contender, Module, PAIRS};
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::{progress, servers};
use std::time::{Duration, Instant};

pub const UNIT: &str = "pairs/s";

const CONNECTIONS: usize = 4;
const DEPTH: usize = 64;
/// Batches of each connection, so that locks are not the same ones all the time.
const BATCHES: usize = 16;

pub fn measure(plan: &Plan, figures: &mut Figures) {
    let servers = [Module::None, Module::Rlock, Module::Noop].map(|module| (module, servers::start(module, &[])));
    let mut runners: Vec<_> = PAIRS.iter().map(|contender| Runner::new(contender, &servers)).collect();
    for round in 0..plan.turns {
        progress::step(&format!("round {} of {}", round + 1, plan.turns));
        for runner in &mut runners {
            let rate = runner.rate(plan.turn);
            figures.add(&format!("pipelined.{}", runner.id), UNIT, rate);
        }
    }
}

struct Runner {
    id: &'static str,
    connections: Vec<(Pipe, Vec<Batch>)>,
    /// Steps in each batch.
    steps: usize,
}

impl Runner {
    fn new(contender: &Contender, servers: &[(Module, Guarded)]) -> Self {
        let (_, server) = servers.iter().find(|(module, _)| *module == contender.module).expect("a server for each");
        let steps = DEPTH / commands_in_a_step(contender);
        let connect = |connection| {
            let batches = (0..BATCHES).map(|batch| batch_of(contender, steps, connection * BATCHES + batch));
            (Pipe::to(server), batches.collect())
        };
        let mut runner = Self { id: contender.id, connections: (0..CONNECTIONS).map(connect).collect(), steps };
        let mut scripts = Batch::default();
        contenders::load_scripts(&mut scripts);
        runner.connections[0].0.run(&scripts);
        runner
    }

    fn rate(&mut self, turn: Duration) -> f64 {
        let start = Instant::now();
        for (pipe, batches) in &mut self.connections {
            pipe.send(&batches[0]);
        }
        let mut done = 0;
        while start.elapsed() < turn {
            for (pipe, batches) in &mut self.connections {
                pipe.finish(&batches[done % BATCHES]);
                pipe.send(&batches[(done + 1) % BATCHES]);
            }
            done += 1;
        }
        for (pipe, batches) in &mut self.connections {
            pipe.finish(&batches[done % BATCHES]);
        }
        ((done + 1) * CONNECTIONS * self.steps) as f64 / start.elapsed().as_secs_f64()
    }
}

fn commands_in_a_step(contender: &Contender) -> usize {
    let mut batch = Batch::default();
    (contender.step)(&mut batch, "");
    batch.commands
}

fn batch_of(contender: &Contender, steps: usize, number: usize) -> Batch {
    let mut batch = Batch::default();
    for step in 0..steps {
        (contender.step)(&mut batch, &format!("lock:{:07}", number * DEPTH + step));
    }
    batch
}
