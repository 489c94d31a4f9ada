//! Hand-offs of a process that waits for many locks at once, by the clock: with a blocked client for each wait, and by
//! the tickets of one session.
//!
//! Each lock is given back at once and asked for again. All of it is one thread, as for the other hand-offs. Each way
//! has its own server, and they take short turns: a process that is not at its turn reads nothing, so its server has
//! nothing to do either.

mod clients;
mod record;
mod tickets;
mod way;

use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::processor::used_by_server;
use crate::{hand_offs, progress, servers};
use record::Record;
use rlock_testing::{Client, make_room_for};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use way::Way;

/// Locks, and how many want each of them.
#[derive(Clone, Copy)]
pub struct Scene {
    pub locks: usize,
    pub waiters: usize,
}

/// Many locks at once, which is what sessions are for; and one lock, of which only one hand-off is under way at any
/// time.
pub const SCENES: [Scene; 2] = [Scene { locks: 100, waiters: 8 }, Scene { locks: 1, waiters: 64 }];

impl Scene {
    pub fn id(self) -> String {
        format!("{}x{}", self.locks, self.waiters)
    }

    fn waits(self) -> usize {
        self.locks * self.waiters
    }

    /// What this wait is for.
    fn lock_of(self, wait: usize) -> usize {
        wait % self.locks
    }
}

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for scene in SCENES {
        if let Err(reason) = make_room_for(scene.waits() * Way::ALL.len()) {
            figures.left_out.push(format!("hand-offs of {} waits of a process: {reason}", scene.waits()));
            continue;
        }
        progress::step(&format!("{}: all begin to wait", scene.id()));
        let mut contenders = Way::ALL.map(|way| Contender::new(way, scene));
        // Twice as many as elsewhere, since other work on the machine shows in each wake-up.
        let rounds = plan.turns * 2;
        for round in 1..=rounds {
            progress::step(&format!("{}, round {round} of {rounds}", scene.id()));
            for contender in &mut contenders {
                contender.turn(plan.turn, figures);
            }
        }
    }
}

/// What is measured as one process, whose waits go on for ever.
struct Process {
    socket: PathBuf,
    scene: Scene,
    record: Record,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl Process {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().push(spawn_local(task));
    }

    /// A wait that failed would only make the others look better.
    fn goes_on(&self) -> bool {
        !self.tasks.borrow().iter().any(JoinHandle::is_finished)
    }
}

/// With fewer wake-ups there is no saying how long 99 of 100 take.
const FEWEST: usize = 100;

const PATIENCE: Duration = Duration::from_secs(60);

/// A process with its server, both of which stand still between two turns.
struct Contender {
    way: Way,
    /// Ends with this.
    _server: Guarded,
    client: Client,
    process: Rc<Process>,
    runtime: Runtime,
    tasks: LocalSet,
}

impl Contender {
    /// All wait, and somebody has given all locks back.
    fn new(way: Way, scene: Scene) -> Self {
        let server = servers::start(way.module(), &[]);
        let mut client = server.client();
        way.take_all(&mut client, scene);
        let (record, tasks) = (Record::of(scene.locks), RefCell::default());
        let process = Rc::new(Process { socket: server.socket(), scene, record, tasks });
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let tasks = LocalSet::new();
        let begun = tasks.enter();
        way.begin(&process);
        drop(begun);
        tasks.block_on(&runtime, all_wait(way, &mut client, &process));
        way.let_go(&mut client, scene);
        Self { way, _server: server, client, process, runtime, tasks }
    }

    fn turn(&mut self, time: Duration, figures: &mut Figures) {
        let record = &self.process.record;
        let used_before = used_by_server(&mut self.client);
        let start = Instant::now();
        record.begin(start);
        self.tasks.block_on(&self.runtime, async {
            tokio::time::sleep(time).await;
            // Where others have the processors all the time, it takes its turn when it gets them.
            while record.wake_ups() < FEWEST && start.elapsed() < PATIENCE {
                tokio::time::sleep(time).await;
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        assert!(record.wake_ups() >= FEWEST, "hardly anything happens");
        let server_seconds = used_by_server(&mut self.client) - used_before;
        assert!(self.process.goes_on(), "a wait failed");
        let (id, hand_offs) = (format!("{}.{}", self.process.scene.id(), self.way.id()), record.count());
        figures.add(&format!("process.{id}"), hand_offs::UNIT, hand_offs / seconds);
        figures.add(&format!("process_cpu.{id}"), "µs", server_seconds / hand_offs * 1e6);
        for percentile in [50, 99] {
            figures.add(&format!("wake_up.{percentile}.{id}"), "µs", record.wake_up_us(percentile));
        }
    }
}

async fn all_wait(way: Way, watch: &mut Client, process: &Process) {
    let (waits, deadline) = (process.scene.waits(), Instant::now() + PATIENCE);
    while way.waiting(watch) < waits {
        assert!(process.goes_on(), "a wait fails as it begins");
        assert!(Instant::now() < deadline, "not all of {waits} waits begin");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn key(lock: usize) -> String {
    format!("lock:{lock:03}")
}
