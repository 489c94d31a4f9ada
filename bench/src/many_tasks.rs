//! One process with many tasks that want some locks, like a service: the processor time on both sides, the connections
//! and the server's memory, and how long its tasks wait.
//!
//! Many tasks run on all processors, unlike the clients of the other measurements. Each way has its own server, and
//! takes long turns: a task that never gets its lock waits for a whole turn, which has to be visible. Outside its turn
//! a process has no tasks, so it uses next to nothing.

mod floor;
mod messages;
mod set;
mod way;

use crate::Part;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::{Row, grouped};
use crate::servers::{self, used_memory};
use floor::Floor;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rlock_testing::{Client, Server, make_room_for};
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use way::{Process, Way};

pub const PART: Part = Part {
    name: "many tasks",
    how: "One process, on all processors, or on one if it has one task: each task wants one of the locks, has it \
          while the others have their turn, releases it and asks again. rlock-client keeps leases alive, which no \
          alternative does. *pub/sub*: `SET NX PX`, one connection for commands, one that is subscribed to all \
          locks, and a message wakes the task that has waited longest. *rslock*: the crate of that name, which \
          asks again after a random time. *To another task*: where no task has a place in a queue, a task that \
          asks again at once may have the lock before all that wait. *CPU*: processor time for each cycle. \
          *Longest wait*: any task's, and none is longer than a turn by much.",
    measure,
    rows,
};

/// Why a cycle failed.
type Failure = Box<dyn Error + Send + Sync>;

/// The tasks, their locks, and the ways to measure.
#[derive(Clone, Copy)]
struct Scene {
    tasks: usize,
    locks: usize,
    ways: &'static [Way],
}

const ONE: Scene = Scene { tasks: 1, locks: 1, ways: &[Way::Rlock, Way::Rslock] };
const THOUSAND: Scene = Scene { tasks: 1_000, locks: 50, ways: &[Way::Rlock, Way::PubSub, Way::Rslock] };
const TEN_THOUSAND: Scene = Scene { tasks: 10_000, locks: 500, ways: &[Way::Rlock, Way::PubSub] };

impl Display for Scene {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Self { tasks, locks, .. } = *self;
        if tasks == 1 { write!(to, "1 task") } else { write!(to, "{} tasks, {locks} locks", grouped(tasks as f64)) }
    }
}

impl Scene {
    fn id(self, what: &str, way: Way) -> String {
        format!("tasks.{}.{what}.{}", self.tasks, way.name())
    }
}

fn measure(plan: &Plan, figures: &mut Figures) {
    for scene in [ONE, THOUSAND, TEN_THOUSAND] {
        let mut builder = if scene.tasks == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        let runtime = builder.enable_all().build().expect("a runtime");
        // A way may need a connection for each task.
        make_room_for(scene.tasks).unwrap_or_else(|reason| panic!("{reason}"));
        let mut contenders: Vec<_> = scene.ways.iter().map(|&way| Contender::new(way, scene, &runtime)).collect();
        for round in 1..=plan.task_rounds {
            // A failed way gets no more turns, so that the same rounds are compared.
            contenders.retain_mut(|contender| {
                let turn = format!("{} tasks, {}, round {round}", scene.tasks, contender.way.name());
                let done = contender.turn(scene, &runtime, plan.task_round, figures);
                done.inspect_err(|failure| figures.left_out.push(format!("{turn}: {failure}"))).is_ok()
            });
        }
    }
}

fn rows(_: &Plan) -> Vec<Row> {
    let compare = |scene: Scene, name: &str, what: &str, bars: [Option<f64>; 2]| {
        let others = scene.ways.iter().filter(|way| **way != Way::Rlock);
        let row = move |way: &Way| {
            let what_of = format!("{scene}: {name}");
            let row = Row::compare(&what_of, &scene.id(what, Way::Rlock), way.name(), &scene.id(what, *way));
            let bar = bars[usize::from(*way == Way::Rslock)];
            if let Some(bar) = bar { row.bar(bar) } else { row }
        };
        others.map(row).collect::<Vec<_>>()
    };
    let most = |scene: Scene, name: &str, what: &str, bar| {
        Row::at_most(&format!("{scene}: {name}"), &scene.id(what, Way::Rlock), bar)
    };
    [
        compare(ONE, "cycles", "cycles", [None, Some(1.1)]),
        compare(ONE, "CPU of the client", "client_cpu", [None, Some(1.0)]),
        compare(THOUSAND, "cycles", "cycles", [None, None]),
        compare(THOUSAND, "… to another task", "changes", [None, None]),
        compare(THOUSAND, "CPU of the client", "client_cpu", [Some(0.84), None]),
        compare(THOUSAND, "CPU of the server", "server_cpu", [Some(1.0), None]),
        compare(THOUSAND, "the longest wait", "longest", [Some(3.34), Some(3.34)]),
        vec![most(THOUSAND, "connections", "connections", 3.0), most(THOUSAND, "memory of the server", "memory", 1.0)],
        compare(TEN_THOUSAND, "cycles", "cycles", [None, None]),
        compare(TEN_THOUSAND, "the longest wait", "longest", [None, None]),
        vec![most(TEN_THOUSAND, "connections", "connections", 3.0)],
    ]
    .concat()
}

/// A process with its server.
struct Contender {
    way: Way,
    /// The server ends when this is dropped.
    _server: Server,
    client: Client,
    process: Process,
    /// What the server used before the process connected.
    memory_before: f64,
}

impl Contender {
    fn new(way: Way, scene: Scene, runtime: &Runtime) -> Self {
        let server = servers::start(way.module());
        let mut client = server.client();
        let memory_before = used_memory(&mut client);
        let address = format!("redis://127.0.0.1:{}", server.port());
        let process = runtime.block_on(Process::open(way, &address, (0..scene.locks).map(key)));
        Self { way, _server: server, client, process: process.expect("the server is there"), memory_before }
    }

    /// # Errors
    /// Why a task failed. The connections and the memory until then are shown all the same, but no speed.
    fn turn(&mut self, scene: Scene, runtime: &Runtime, time: Duration, figures: &mut Figures) -> Result<(), Failure> {
        let id = |what: &str| scene.id(what, self.way);
        let (here_before, server_before) = (used_here(), used_by(&mut self.client));
        let start = Instant::now();
        let floor = Arc::new(Floor::of(scene.locks, start + time));
        let work = || runtime.block_on(all_work(&self.process, scene.tasks, &floor));
        let (waits, most) = watch(&mut self.client, work);
        let seconds = start.elapsed().as_secs_f64();
        let (here, server) = (used_here() - here_before, used_by(&mut self.client) - server_before);
        figures.add(&id("connections"), "connections", most.connections);
        figures.add(&id("memory"), "MB", (most.memory - self.memory_before) / 1e6);
        let waits = waits?;
        let cycles = waits.len() as f64;
        figures.add(&id("cycles"), "cycles/s", cycles / seconds);
        figures.add(&id("changes"), "cycles/s", floor.changes() / seconds);
        figures.add(&id("client_cpu"), "µs", here / cycles * 1e6);
        figures.add(&id("server_cpu"), "µs", server / cycles * 1e6);
        let longest = waits.into_iter().max().unwrap_or_default();
        figures.add(&id("longest"), "ms", longest.as_secs_f64() * 1e3);
        Ok(())
    }
}

/// All tasks work until the time is up, and finish their last cycle. Returns how long each wait was.
async fn all_work(process: &Process, tasks: usize, floor: &Arc<Floor>) -> Result<Vec<Duration>, Failure> {
    let work = |task| tokio::spawn(work(process.clone(), Arc::clone(floor), task));
    let tasks: Vec<_> = (0..tasks).map(work).collect();
    let (mut waits, mut failed) = (Vec::new(), None);
    // All tasks are awaited, so that none keeps working during another way's turn.
    for task in tasks {
        match task.await.map_err(Failure::from).and_then(|worked| worked) {
            Ok(its) => waits.extend(its),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    failed.map_or(Ok(()), Err)?;
    floor.had_one_holder_at_most()?;
    Ok(waits)
}

/// A task that repeatedly wants one of the locks. If one task fails, all end.
async fn work(process: Process, floor: Arc<Floor>, task: usize) -> Result<Vec<Duration>, Failure> {
    let lock = task % floor.locks();
    let (name, mut waits) = (key(lock), Vec::new());
    while floor.is_open() {
        let asked = Instant::now();
        let hold = || {
            waits.push(asked.elapsed());
            floor.hold(lock, task)
        };
        process.cycle(&name, task, hold).await.inspect_err(|_| floor.close())?;
    }
    Ok(waits)
}

fn key(lock: usize) -> String {
    format!("orders:{lock:03}")
}

/// The server's maximum of connections and of memory.
#[derive(Default)]
struct Most {
    /// Without the connection that watches.
    connections: f64,
    memory: f64,
}

/// Often enough to miss little, and rarely enough to cost next to nothing.
const EACH: Duration = Duration::from_millis(25);

/// Does the work, and looks at the server meanwhile.
fn watch<T>(client: &mut Client, work: impl FnOnce() -> T) -> (T, Most) {
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let watch = scope.spawn(move || {
            let mut most = Most::default();
            loop {
                let connections = client.info("clients").number("connected_clients") as f64 - 1.0;
                most.connections = most.connections.max(connections);
                most.memory = most.memory.max(used_memory(client));
                if ended.recv_timeout(EACH) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        let done = work();
        drop(end);
        (done, watch.join().expect("the server answers"))
    })
}

/// Processor time of a server since it began, in seconds.
pub fn used_by(client: &mut Client) -> f64 {
    let info = client.info("cpu");
    let used = |name: &str| info.find(name).and_then(|seconds| seconds.parse::<f64>().ok()).expect("seconds");
    used("used_cpu_user") + used("used_cpu_sys")
}

/// Processor time of this process since it began, in seconds.
pub fn used_here() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask what it has used");
    [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds() as f64 / 1e6).iter().sum()
}
