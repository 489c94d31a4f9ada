//! One process with thousands of tasks that want some locks, as a service is: what it takes of the processor on both
//! sides, of connections and of the server's memory, and how long its tasks wait.
//!
//! The tasks run on all processors, unlike the clients of the other measurements. Each way has a server of its own, and
//! they take long turns: a task that never gets its lock waits for as long as a turn lasts, and that is to be seen. A
//! process that is not at its turn has no tasks, so it uses next to nothing.

mod floor;
mod messages;
mod pauses;
mod set;
mod waits;
mod watch;
mod way;

use crate::crates::{self, Failure};
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::waiters::has_memory_for;
use crate::{memory, processor, progress, servers};
use floor::Floor;
use rlock_testing::{Client, make_room_for};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use waits::Waits;
use way::Process;
pub use way::Way;

/// Tasks, the locks that they want, and by which ways they are measured.
#[derive(Clone, Copy)]
pub struct Scene {
    pub tasks: usize,
    pub locks: usize,
    pub ways: &'static [Way],
}

pub const THOUSAND: Scene = Scene { tasks: 1_000, locks: 50, ways: &Way::ALL };

/// As many tasks for each lock.
pub const TEN_THOUSAND: Scene = Scene { tasks: 10_000, locks: 500, ways: &[Way::Rlock, Way::PubSub] };

pub const SCENES: [Scene; 2] = [THOUSAND, TEN_THOUSAND];

impl Scene {
    pub fn figure(self, what: &str, way: &str) -> String {
        format!("tasks.{}.{what}.{way}", self.tasks)
    }
}

pub fn measure(plan: &Plan, figures: &mut Figures) {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for scene in SCENES {
        // A way may need a connection for each task.
        if let Err(reason) = make_room_for(scene.tasks).and_then(|()| has_memory_for(scene.tasks)) {
            figures.left_out.push(format!("{} tasks of one process: {reason}", scene.tasks));
            continue;
        }
        measure_scene(scene, &runtime, plan, figures);
    }
}

fn measure_scene(scene: Scene, runtime: &Runtime, plan: &Plan, figures: &mut Figures) {
    progress::step(&format!("{} tasks: servers start", scene.tasks));
    let mut contenders: Vec<_> = scene.ways.iter().map(|&way| Contender::new(way, scene, runtime)).collect();
    for round in 1..=plan.task_turns {
        // One that has failed has no more turns: what is compared are the same rounds.
        contenders.retain_mut(|contender| {
            let turn = format!("{} tasks, {}, round {round}", scene.tasks, contender.way.id());
            progress::step(&format!("{turn} of {}", plan.task_turns));
            let done = contender.turn(scene, runtime, plan.task_turn, figures);
            done.inspect_err(|failure| figures.left_out.push(format!("{turn}: {failure}"))).is_ok()
        });
    }
}

/// A process with its server.
struct Contender {
    way: Way,
    /// Ends with this.
    _server: Guarded,
    client: Client,
    process: Process,
    /// What the server used before the process connected.
    memory_before: f64,
}

impl Contender {
    fn new(way: Way, scene: Scene, runtime: &Runtime) -> Self {
        let server = servers::start_on_port(way.module(), &[]);
        let mut client = server.client();
        let memory_before = watch::memory(&mut client);
        let process = runtime.block_on(Process::open(way, &crates::address(&server), scene.locks));
        Self { way, _server: server, client, process: process.expect("the server is there"), memory_before }
    }

    /// # Errors
    /// Why a task failed. What it took until then is told all the same; how fast it was is not.
    fn turn(&mut self, scene: Scene, runtime: &Runtime, time: Duration, figures: &mut Figures) -> Result<(), Failure> {
        let figure = |what: &str| scene.figure(what, self.way.id());
        let (here_before, server_before) = (processor::used_here(), processor::used_by_server(&mut self.client));
        let start = Instant::now();
        let floor = Arc::new(Floor::of(scene.locks, start + time));
        let work = || runtime.block_on(all_work(&self.process, scene.tasks, &floor));
        let (waits, most) = watch::during(&mut self.client, work);
        let seconds = start.elapsed().as_secs_f64();
        let here = processor::used_here() - here_before;
        let server = processor::used_by_server(&mut self.client) - server_before;
        figures.add(&figure("connections"), "connections", most.connections);
        figures.add(&figure("memory"), memory::UNIT, most.memory - self.memory_before);
        let waits = waits?;
        figures.add(&figure("cycles"), crates::UNIT, waits.count() / seconds);
        figures.add(&figure("changes"), crates::UNIT, floor.changes() / seconds);
        figures.add(&figure("client_cpu"), "µs", here / waits.count() * 1e6);
        figures.add(&figure("server_cpu"), "µs", server / waits.count() * 1e6);
        for (what, share) in [("half", 0.5), ("99", 0.99), ("longest", 1.0)] {
            figures.add(&figure(&format!("wait.{what}")), "ms", waits.ms(share));
        }
        Ok(())
    }
}

/// All tasks work until the time is up, and have their last cycle to its end.
async fn all_work(process: &Process, tasks: usize, floor: &Arc<Floor>) -> Result<Waits, Failure> {
    let work = |task| tokio::spawn(work(process.clone(), Arc::clone(floor), task));
    let tasks: Vec<_> = (0..tasks).map(work).collect();
    let (mut waits, mut failed) = (Waits::default(), None);
    // To the last of them, so that none works on while others have their turn.
    for task in tasks {
        match task.await.map_err(Failure::from).and_then(|worked| worked) {
            Ok(its) => waits.add(&its),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    failed.map_or(Ok(()), Err)?;
    floor.had_one_holder_at_most()?;
    Ok(waits)
}

/// A task that wants one of the locks, again and again. Where one fails, all come to their end.
async fn work(process: Process, floor: Arc<Floor>, task: usize) -> Result<Waits, Failure> {
    let lock = task % floor.locks();
    let (name, mut waits) = (key(lock), Waits::default());
    while floor.is_open() {
        let asked = Instant::now();
        let hold = || {
            waits.note(asked.elapsed());
            floor.hold(lock, task)
        };
        process.cycle(&name, task, hold).await.inspect_err(|_| floor.close())?;
    }
    Ok(waits)
}

fn key(lock: usize) -> String {
    format!("orders:{lock:03}")
}
