//! Hand-offs of a process that waits for many locks at once, by the clock: with a blocked client for each wait, and by the
//! tickets of one session.
//!
//! Each lock is given back at once and asked for again. All of it is one thread, as for the other hand-offs; servers are new for
//! each turn.

mod clients;
mod record;
mod tickets;

use crate::contenders::{LONG_LEASE, Module};
use crate::figures::Figures;
use crate::hand_offs::blocked_clients;
use crate::plan::Plan;
use crate::waiters::told_by_info;
use crate::{hand_offs, progress, servers};
use clients::{Again, by_queue, by_token};
use record::Record;
use rlock_testing::{Client, Reply, make_room_for};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// Locks, and how many want each of them.
#[derive(Clone, Copy)]
pub struct Scene {
    pub locks: usize,
    pub waiters: usize,
}

/// Many locks at once, which is what sessions are for; and one lock, of which only one hand-off is under way at any time.
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

/// What a process waits by.
#[derive(Clone, Copy)]
enum Way {
    /// A connection for each wait, which the server keeps.
    Clients,
    /// The same with as few writes as can be.
    TerseClients,
    /// Tickets of one session.
    Tickets,
    /// The same, and the work begins after a RENEW, as it must where a stalled process may have lost its grants.
    Renewed,
    /// A connection for each wait, and a token in a list for each lock: no lock at all.
    Tokens,
}

impl Way {
    const ALL: [Self; 5] = [Self::Clients, Self::TerseClients, Self::Tickets, Self::Renewed, Self::Tokens];

    fn id(self) -> &'static str {
        match self {
            Self::Clients => "rlock",
            Self::TerseClients => "terse",
            Self::Tickets => "tickets",
            Self::Renewed => "renewed",
            Self::Tokens => "token",
        }
    }

    fn module(self) -> Module {
        if matches!(self, Self::Tokens) { Module::None } else { Module::Rlock }
    }

    /// Begins to wait, for all locks and as often as each is wanted.
    fn begin(self, process: &Rc<Process>) {
        let (waits, shared) = (0..process.scene.waits(), || Rc::clone(process));
        match self {
            Self::Clients => waits.for_each(|wait| process.spawn(by_queue(shared(), wait, Again::WhenToldSo))),
            Self::TerseClients => waits.for_each(|wait| process.spawn(by_queue(shared(), wait, Again::AtOnce))),
            Self::Tickets => process.spawn(tickets::work(shared())),
            Self::Renewed => process.spawn(tickets::work_after_renewal(shared())),
            Self::Tokens => waits.for_each(|wait| process.spawn(by_token(shared(), wait))),
        }
    }

    /// Somebody has all locks before all others.
    fn take_all(self, first: &mut Client, scene: Scene) {
        if matches!(self.module(), Module::Rlock) {
            let take = |lock| format!("RLOCK.ACQUIRE {} first {LONG_LEASE}", key(lock));
            let taken = first.say_all((0..scene.locks).map(take));
            assert!(taken.iter().all(|reply| *reply == Reply::Nil), "all locks are free");
        }
    }

    /// Gives them back.
    fn let_go(self, first: &mut Client, scene: Scene) {
        let let_go = |lock| match self {
            Self::Tokens => format!("LPUSH {} token", key(lock)),
            _ => format!("RLOCK.RELEASE {} first", key(lock)),
        };
        let answers = first.say_all((0..scene.locks).map(let_go));
        assert!(answers.iter().all(|reply| *reply == Reply::Int(1)), "all locks change hands");
    }

    fn waiting(self, watch: &mut Client) -> usize {
        match self {
            Self::Tokens => blocked_clients(watch),
            _ => told_by_info(watch, "rlock", "rlock_waiters") as usize,
        }
    }
}

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for scene in SCENES {
        if let Err(reason) = make_room_for(scene.waits()) {
            figures.left_out.push(format!("hand-offs of {} waits of a process: {reason}", scene.waits()));
            continue;
        }
        for round in 1..=plan.hand_off_turns {
            for way in Way::ALL {
                let id = format!("{}.{}", scene.id(), way.id());
                progress::step(&format!("{id}, round {round} of {}", plan.hand_off_turns));
                let turn = turn(way, scene, plan.hand_off_turn);
                let hand_offs = turn.process.record.count();
                figures.add(&format!("process.{id}"), hand_offs::UNIT, hand_offs / turn.seconds);
                figures.add(&format!("process_cpu.{id}"), "µs", turn.server_seconds / hand_offs * 1e6);
                for percentile in [50, 99] {
                    let us = turn.process.record.wake_up_us(percentile);
                    figures.add(&format!("wake_up.{percentile}.{id}"), "µs", us);
                }
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

    /// What failed would wait for nothing any more, and the rest look the better for it.
    fn has_not_failed(&self) -> bool {
        !self.tasks.borrow().iter().any(JoinHandle::is_finished)
    }
}

struct Turn {
    process: Rc<Process>,
    seconds: f64,
    /// The processor's time that the server used meanwhile.
    server_seconds: f64,
}

fn turn(way: Way, scene: Scene, time: Duration) -> Turn {
    let server = servers::start(way.module(), &[]);
    let mut first = server.client();
    way.take_all(&mut first, scene);
    let (record, tasks) = (Record::of(scene.locks), RefCell::default());
    let process = Rc::new(Process { socket: server.socket(), scene, record, tasks });
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tasks = LocalSet::new();
    let begun = tasks.enter();
    way.begin(&process);
    drop(begun);
    tasks.block_on(&runtime, all_wait(way, &mut first, &process));
    let used_before = used_seconds(&mut first);
    let start = Instant::now();
    (0..scene.locks).for_each(|lock| process.record.release(lock, start));
    way.let_go(&mut first, scene);
    tasks.block_on(&runtime, async { tokio::time::sleep(time).await });
    let seconds = start.elapsed().as_secs_f64();
    assert!(process.has_not_failed(), "a wait failed");
    Turn { process, seconds, server_seconds: used_seconds(&mut first) - used_before }
}

async fn all_wait(way: Way, watch: &mut Client, process: &Process) {
    let (waits, deadline) = (process.scene.waits(), Instant::now() + Duration::from_secs(60));
    while way.waiting(watch) < waits {
        assert!(process.has_not_failed(), "a wait fails as it begins");
        assert!(Instant::now() < deadline, "not all of {waits} waits begin");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn used_seconds(client: &mut Client) -> f64 {
    ["used_cpu_user", "used_cpu_sys"].map(|name| told_by_info(client, "cpu", name)).iter().sum()
}

fn key(lock: usize) -> String {
    format!("lock:{lock:03}")
}
