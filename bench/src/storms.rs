//! Thousands who wait and are served, told or sent away at the same moment: how late the last of them is, and how long
//! somebody who has nothing to do with it waits for an answer meanwhile. `cargo test --test storms` holds the module to
//! bounds in many more settings.

use crate::contenders::Module;
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::waiters::told_by_info;
use crate::{progress, servers};
use rlock_testing::{Answer, Bystander, Client, Crowd, Reply, crowd_of, free_port, unix_ms, wait_until};

pub const UNIT: &str = "ms";

pub struct Storm {
    pub id: &'static str,
    pub what: &'static str,
    pub crowd: usize,
    /// Returns of each of the crowd when it was to be served, at which Unix ms, and when it was.
    pass: fn(&mut Scene) -> Vec<Served>,
}

#[derive(Clone, Copy)]
struct Served {
    due: i64,
    at: i64,
}

pub const STORMS: [Storm; 4] = [
    Storm {
        id: "leases_end",
        what: "locks whose leases end within 10 ms, each waited for",
        crowd: 10_000,
        pass: leases_end,
    },
    Storm { id: "readers", what: "readers whom one release lets in", crowd: 8_000, pass: readers_come_in },
    Storm { id: "time_is_up", what: "waits for one lock whose time is up together", crowd: 8_000, pass: time_is_up },
    Storm {
        id: "demotion",
        what: "waiters whom a server sends away that becomes a replica",
        crowd: 8_000,
        pass: demotion,
    },
];

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for round in 1..=plan.storms {
        for storm in &STORMS {
            progress::step(&format!("{}, round {round} of {}", storm.id, plan.storms));
            let mut scene = Scene::with(storm.crowd);
            let served = (storm.pass)(&mut scene);
            let testimony = scene.bystander.take().expect("somebody stood by").tell();
            let starved = |it: Served| testimony.wanted.ms_between(it.due, it.at);
            let latest = |late: &dyn Fn(Served) -> i64| served.iter().map(|it| late(*it)).max().unwrap_or(0) as f64;
            let id = |what: &str| format!("storm.{}.{what}", storm.id);
            figures.add(&id("crowd"), "clients", scene.crowd.size() as f64);
            figures.add(&id("late"), UNIT, latest(&|it| (it.at - it.due - starved(it)).max(0)));
            figures.add(&id("late_by_the_clock"), UNIT, latest(&|it| it.at - it.due));
            figures.add(&id("silence"), UNIT, testimony.silence.as_secs_f64() * 1_000.0);
        }
    }
}

struct Scene {
    server: Guarded,
    client: Client,
    crowd: Crowd,
    bystander: Option<Bystander>,
}

const LEASE_MS: i64 = 600_000;

impl Scene {
    fn with(crowd: usize) -> Self {
        let size = crowd_of(crowd);
        let server = servers::start(Module::Rlock, &[]);
        let (client, crowd) = (server.client(), Crowd::connect(&server, size));
        Self { server, client, crowd, bystander: None }
    }

    fn wait(&mut self, ask: impl Fn(usize) -> String) {
        let all = self.crowd.size();
        (0..all).for_each(|number| self.crowd.say(number, &ask(number)));
        wait_until("all wait", || told_by_info(&mut self.client, "rlock", "rlock_waiters") == all as f64);
    }

    /// From now on somebody looks on.
    fn begin(&mut self) {
        self.bystander = Some(Bystander::of(&self.server));
    }

    fn collect(&mut self) -> Vec<Answer> {
        let answered = self.crowd.collect(self.crowd.size());
        assert_eq!(answered, self.crowd.size(), "all are answered");
        self.crowd.answers().flatten().cloned().collect()
    }

    fn all_are_granted(&mut self) {
        assert!(self.collect().iter().all(|answer| answer.reply == Some(Reply::Nil)), "all are granted");
    }

    fn ends(&mut self, key: impl Fn(usize) -> String) -> Vec<i64> {
        let keys = (0..self.crowd.size()).map(|number| format!("PEXPIRETIME {}", key(number)));
        self.client.say_all(keys).iter().map(Reply::as_int).collect()
    }
}

/// Due when its lease ends, or when all ends were set, if that took longer.
fn leases_end(scene: &mut Scene) -> Vec<Served> {
    let all = scene.crowd.size();
    let taken = scene.client.say_all((0..all).map(|lock| format!("RLOCK.ACQUIRE orders:{lock} holder {LEASE_MS}")));
    assert!(taken.iter().all(|reply| *reply == Reply::Nil), "all locks are free");
    scene.wait(|lock| format!("RLOCK.ACQUIRE orders:{lock} waiter {LEASE_MS} WAIT 0"));
    scene.begin();
    let base = scene.client.time_ms() + 1_000;
    let end = |lock: usize| base + lock as i64 % 10;
    let set = scene.client.say_all((0..all).map(|lock| format!("PEXPIREAT orders:{lock} {}", end(lock))));
    assert!(set.iter().all(|reply| *reply == Reply::Int(1)), "all locks are held");
    let all_are_set = scene.client.time_ms();
    scene.all_are_granted();
    let granted = scene.ends(|lock| format!("orders:{lock}")).into_iter().map(|end| end - LEASE_MS);
    granted.enumerate().map(|(lock, at)| Served { due: end(lock).max(all_are_set), at }).collect()
}

/// Due with the release.
fn readers_come_in(scene: &mut Scene) -> Vec<Served> {
    assert_eq!(scene.client.say(&format!("RLOCK.WACQUIRE gate holder {LEASE_MS}")), Reply::Nil);
    scene.wait(|number| format!("RLOCK.RACQUIRE gate reader:{number} {LEASE_MS} WAIT 0"));
    scene.begin();
    let before = scene.client.time_ms();
    assert_eq!(scene.client.say("RLOCK.RELEASE gate holder"), Reply::Int(1));
    scene.all_are_granted();
    let ends = scene.ends(|number| format!("{{gate}}:reader:{number}:rwlock_timeout:1"));
    ends.into_iter().map(|end| Served { due: before, at: end - LEASE_MS }).collect()
}

/// So many ask before the clock is read again, from which their wait is counted.
const ASK_AT_ONCE: usize = 100;

/// Due when the last of them is.
fn time_is_up(scene: &mut Scene) -> Vec<Served> {
    assert_eq!(scene.client.say(&format!("RLOCK.ACQUIRE gate holder {LEASE_MS}")), Reply::Nil);
    let mut now = scene.client.time_ms();
    let together = now + 3_000;
    let (all, mut last_due) = (scene.crowd.size(), together);
    for first in (0..all).step_by(ASK_AT_ONCE) {
        let wait = (together - now).max(1);
        for number in first..all.min(first + ASK_AT_ONCE) {
            scene.crowd.say(number, &format!("RLOCK.ACQUIRE gate waiter {LEASE_MS} WAIT {wait}"));
        }
        // Each wait begins when the server reads of it, which is before it answers this.
        now = scene.client.time_ms();
        last_due = last_due.max(now + wait);
    }
    scene.begin();
    let answers = scene.collect();
    // What is left of the lock tells when it was looked at.
    let end = scene.client.expiry("gate");
    let left = |answer: &Answer| answer.reply.as_ref().map_or(0, Reply::as_int);
    answers.iter().map(|answer| Served { due: last_due, at: end - left(answer) }).collect()
}

/// Due with the command that makes it a replica. By the clock of those who are told, since the server's tells nothing.
fn demotion(scene: &mut Scene) -> Vec<Served> {
    assert_eq!(scene.client.say(&format!("RLOCK.ACQUIRE gate holder {LEASE_MS}")), Reply::Nil);
    scene.wait(|number| format!("RLOCK.ACQUIRE gate waiter:{number} {LEASE_MS} WAIT 0"));
    scene.begin();
    let before = unix_ms();
    // Nobody is there.
    scene.client.say(&format!("REPLICAOF 127.0.0.1 {}", free_port()));
    scene.collect().iter().map(|answer| Served { due: before, at: answer.at }).collect()
}
