//! Hand-overs per second by the clock: many clients want a lock, or one of a few permits; each releases it at once and asks
//! again.
//!
//! All clients are tasks of one thread, for all contenders alike. Before the clock runs they all wait; then the first holder
//! releases what they wait for. Servers are new for each turn, so that no turn inherits another's waiters.

use crate::figures::Figures;
use crate::grants::Grants;
use crate::line::{Line, packed};
use crate::plan::Plan;
use crate::servers::{self, Module, blocked_clients};
use crate::session;
use rlock_testing::Client;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

pub const UNIT: &str = "hand-overs/s";

/// How a lock, or a permit, gets from one client to the next.
pub struct Way {
    pub id: &'static str,
    pub module: Module,
    /// What the server needs of this lock before the first client asks.
    pub prepare: fn(&mut Client, &str),
    /// The holders with priority.
    pub first: &'static [&'static str],
    /// Asks for the lock, and releases it.
    pub commands: fn(lock: &str, holder: &str) -> [Vec<String>; 2],
    /// How many lines a reply has, and how the last of them begins if it is a grant.
    pub grant: (usize, &'static str),
    /// Where releases of the lock are published. A client that was refused asks again after the next message.
    pub channel: Option<fn(&str) -> String>,
    /// Begins all waits.
    pub begin: fn(&'static Way, &Rc<Turn>) -> Vec<JoinHandle<()>>,
}

/// Locks, and the waiters of each.
#[derive(Clone, Copy)]
pub struct Scene {
    pub locks: usize,
    pub waiters: usize,
}

impl Scene {
    pub fn waits(self) -> usize {
        self.locks * self.waiters
    }

    /// The lock of this wait.
    pub fn lock_of(self, wait: usize) -> String {
        key(wait % self.locks)
    }
}

fn key(lock: usize) -> String {
    format!("lock:{lock:03}")
}

/// One turn of a contender.
pub struct Turn {
    pub socket: PathBuf,
    pub scene: Scene,
    pub grants: Grants,
    refused: Cell<usize>,
}

pub fn measure(plan: &Plan, figures: &mut Figures, what: &str, scene: Scene, ways: &'static [Way]) {
    for _ in 0..plan.rounds {
        for way in ways {
            let (turn, seconds) = play(way, scene, plan.round);
            figures.add(&format!("{what}.{}", way.id), UNIT, turn.grants.count() / seconds);
            let unfairness = turn.grants.unfairness(scene.waits());
            figures.add(&format!("{what}.unfairness.{}", way.id), "grants", unfairness);
        }
    }
}

/// What happened, and in how many seconds.
fn play(way: &'static Way, scene: Scene, time: Duration) -> (Rc<Turn>, f64) {
    let server = servers::start(way.module);
    let (mut client, mut watch) = (server.client(), server.client());
    let first = || {
        (0..scene.locks).flat_map(move |lock| way.first.iter().map(move |holder| (way.commands)(&key(lock), holder)))
    };
    (0..scene.locks).for_each(|lock| (way.prepare)(&mut client, &key(lock)));
    first().for_each(|[ask, _]| drop(client.run(&ask)));
    let (grants, refused) = Default::default();
    let turn = Rc::new(Turn { socket: server.socket(), scene, grants, refused });
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let all = LocalSet::new();
    let begun = all.enter();
    let tasks = (way.begin)(way, &turn);
    drop(begun);
    all.block_on(&runtime, all_wait(way, &mut watch, &turn));
    let start = Instant::now();
    first().for_each(|[_, release]| drop(client.run(&release)));
    all.block_on(&runtime, async { tokio::time::sleep(time).await });
    let seconds = start.elapsed().as_secs_f64();
    // Fewer clients would make the figures better than they are.
    assert!(!tasks.iter().any(JoinHandle::is_finished), "a client failed");
    (turn, seconds)
}

async fn all_wait(way: &Way, watch: &mut Client, turn: &Turn) {
    let (waits, deadline) = (turn.scene.waits(), Instant::now() + Duration::from_secs(60));
    let mut waiting = || match (way.channel, way.module) {
        (Some(_), _) => turn.refused.get(),
        (None, Module::Rlock) => usize::try_from(watch.figure("waiters")).expect("a count"),
        (None, Module::None) => blocked_clients(watch),
    };
    while waiting() < waits {
        assert!(Instant::now() < deadline, "not all of {waits} clients begin to wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A client for each wait.
pub fn clients(way: &'static Way, turn: &Rc<Turn>) -> Vec<JoinHandle<()>> {
    (0..turn.scene.waits()).map(|wait| spawn_local(client(way, Rc::clone(turn), wait))).collect()
}

async fn client(way: &Way, turn: Rc<Turn>, wait: usize) {
    let lock = turn.scene.lock_of(wait);
    let [ask, release] = (way.commands)(&lock, &session::holder(wait)).map(|words| packed(&words));
    let mut line = Line::connect(&turn.socket).await;
    let mut messages = match way.channel {
        Some(channel) => Some(Line::subscribed(&turn.socket, &channel(&lock)).await),
        None => None,
    };
    let (lines, grant) = way.grant;
    loop {
        line.send(&ask).await;
        line.skip(lines - 1).await;
        if line.next().await.starts_with(grant) {
            turn.grants.give(wait);
            line.send(&release).await;
            line.skip(1).await;
        } else {
            turn.refused.set(turn.refused.get() + 1);
            messages.as_mut().expect("only a client with messages is refused").anything().await;
        }
    }
}

pub fn words<const COUNT: usize>(words: [&str; COUNT]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
