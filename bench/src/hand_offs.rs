//! Hand-offs per second by the clock: many clients want one lock, or one of a few permits; each gives it back at once and
//! asks again.
//!
//! All clients are tasks of one thread, for all contenders alike. Before the clock runs they all wait; then the lock
//! that they wait for is given back. Servers are new for each turn, so that no turn inherits another's waiters.

mod permits;
mod ways;

use crate::figures::Figures;
use crate::grants::Grants;
use crate::plan::Plan;
use crate::{progress, servers};
use rlock_testing::{Client, Server};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use ways::Way;
pub use ways::{CHANNEL, TAKEN, acquire_script, release_script};

pub const UNIT: &str = "hand-offs/s";
pub const WAITERS: [usize; 3] = [8, 64, 512];

/// How many want a permit.
pub const PERMIT_WAITERS: usize = 100;

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for waiters in WAITERS {
        rounds(plan, figures, waiters, &Way::ALL.map(|way| (way.id().to_owned(), way)));
    }
}

pub fn of_permits(plan: &Plan, figures: &mut Figures) {
    let ways = Way::OF_PERMITS.map(|way| (format!("permits.{}", way.id()), way));
    rounds(plan, figures, PERMIT_WAITERS, &ways);
}

fn rounds(plan: &Plan, figures: &mut Figures, waiters: usize, ways: &[(String, Way)]) {
    for round in 0..plan.hand_off_turns {
        for (id, way) in ways {
            progress::step(&format!("{id}, {waiters} waiters, round {} of {}", round + 1, plan.hand_off_turns));
            let (record, seconds) = turn(*way, waiters, plan.hand_off_turn);
            let grants = &record.grants;
            figures.add(&format!("hand_offs.{waiters}.{id}"), UNIT, grants.count() / seconds);
            figures.add(&format!("changes.{waiters}.{id}"), UNIT, grants.changes() / seconds);
            figures.add(&format!("unfairness.{waiters}.{id}"), "grants", grants.unfairness(waiters));
        }
    }
}

/// What happened, and in how many seconds.
fn turn(way: Way, waiters: usize, time: Duration) -> (Rc<Record>, f64) {
    let server = servers::start(way.module(), &[]);
    let mut first = server.client();
    way.begin(&mut first);
    let record = Rc::new(Record::default());
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tasks = LocalSet::new();
    for number in 0..waiters {
        tasks.spawn_local(way.client(server.socket(), number, Rc::clone(&record)));
    }
    tasks.block_on(&runtime, all_wait(way, &server, waiters, &record));
    let start = Instant::now();
    way.let_go(&mut first);
    tasks.block_on(&runtime, async { tokio::time::sleep(time).await });
    let seconds = start.elapsed().as_secs_f64();
    (record, seconds)
}

/// Who asked and did not get the lock, and who got it.
#[derive(Default)]
struct Record {
    refused: Cell<usize>,
    grants: Grants,
}

async fn all_wait(way: Way, server: &Server, waiters: usize, record: &Record) {
    let mut watch = server.client();
    let deadline = Instant::now() + Duration::from_secs(60);
    while way.waiting(&mut watch, record) < waiters {
        assert!(Instant::now() < deadline, "not all of {waiters} clients begin to wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How many the server keeps waiting.
pub fn blocked_clients(watch: &mut Client) -> usize {
    let info = watch.say("INFO clients");
    let line = info.as_text().lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("a line");
    line.parse().expect("a number")
}
