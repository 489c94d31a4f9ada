//! Two crates for Rust, end to end and by the clock: `rslock` on a plain server, `rlock-client` on one with the module.
//!
//! Both keep one connection and are used as one process would: alone, lock after lock; and many tasks on one lock.
//! `rslock` keeps no lease alive, and who waits asks again after a random time.

use crate::contenders::Module;
use crate::figures::Figures;
use crate::grants::Grants;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::processor::used_here;
use crate::{progress, servers};
use rlock_client::Locks;
use rslock::LockManager;
use std::error::Error;
use std::future::ready;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

pub const UNIT: &str = "cycles/s";
pub const TASKS: usize = 8;

/// Why a cycle failed.
pub type Failure = Box<dyn Error + Send + Sync>;

const TTL: Duration = Duration::from_secs(30);

pub fn measure(plan: &Plan, figures: &mut Figures) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let plain = servers::start_on_port(Module::None, &[]);
    let native = servers::start_on_port(Module::Rlock, &[]);
    let rlock = runtime.block_on(Crate::rlock(&address(&native))).expect("the server is there");
    let ways = [Crate::rslock(&address(&plain)), rlock];
    for round in 0..plan.turns.min(9) {
        progress::step(&format!("alone, round {}", round + 1));
        for way in &ways {
            let used_before = used_here();
            let (cycles, seconds) = runtime.block_on(alone(way, plan.turn * 2));
            figures.add(&format!("crate.alone.{}", way.id()), UNIT, cycles / seconds);
            figures.add(&format!("crate.alone_cpu.{}", way.id()), "µs", (used_here() - used_before) / cycles * 1e6);
        }
    }
    for round in 0..plan.hand_off_turns {
        progress::step(&format!("contended, round {}", round + 1));
        for way in &ways {
            let (grants, seconds) = contended(&runtime, way, plan.hand_off_turn);
            let id = way.id();
            figures.add(&format!("crate.contended.{id}"), UNIT, grants.count() / seconds);
            figures.add(&format!("crate.changes.{id}"), UNIT, grants.changes() / seconds);
            figures.add(&format!("crate.unfairness.{id}"), "grants", grants.unfairness(TASKS));
        }
    }
}

/// A process's way to all its locks.
#[derive(Clone)]
pub enum Crate {
    Rslock(LockManager),
    Rlock(Locks),
}

impl Crate {
    pub fn rslock(address: &str) -> Self {
        Self::Rslock(LockManager::new(vec![address]))
    }

    pub async fn rlock(address: &str) -> Result<Self, Failure> {
        Ok(Self::Rlock(Locks::connect(address).await?))
    }

    fn id(&self) -> &'static str {
        match self {
            Self::Rslock(_) => "rslock",
            Self::Rlock(_) => "rlock_client",
        }
    }

    /// Waits for the lock, does the work, and gives the lock back.
    pub async fn cycle<W: Future>(&self, name: &str, work: impl FnOnce() -> W) -> Result<(), Failure> {
        match self {
            Self::Rslock(manager) => {
                let lock = manager.acquire_no_guard(name, TTL).await?;
                work().await;
                manager.unlock(&lock).await;
            }
            Self::Rlock(locks) => {
                let guard = locks.lock(name).acquire().await?;
                work().await;
                guard.release().await?;
            }
        }
        Ok(())
    }
}

pub fn address(server: &Guarded) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// How many cycles, and in how many seconds.
async fn alone(way: &Crate, time: Duration) -> (f64, f64) {
    let start = Instant::now();
    let mut cycles = 0_usize;
    while start.elapsed() < time {
        way.cycle(&format!("lock:{cycles:07}"), || ready(())).await.expect("a lock, still ours at the end");
        cycles += 1;
    }
    (cycles as f64, start.elapsed().as_secs_f64())
}

/// Who got the lock, and in how many seconds.
fn contended(runtime: &Runtime, way: &Crate, time: Duration) -> (Rc<Grants>, f64) {
    let grants = Rc::new(Grants::default());
    let start = Instant::now();
    let tasks = LocalSet::new();
    let work = |number| {
        let (way, grants) = (way.clone(), Rc::clone(&grants));
        async move {
            while start.elapsed() < time {
                let cycle = way.cycle("wanted by all", || async { grants.give(number) });
                cycle.await.expect("a lock, still ours at the end");
            }
        }
    };
    let works: Vec<_> = (0..TASKS).map(|number| tasks.spawn_local(work(number))).collect();
    tasks.block_on(runtime, async {
        for work in works {
            work.await.expect("no task fails");
        }
    });
    (grants, start.elapsed().as_secs_f64())
}
