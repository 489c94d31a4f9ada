//! What the figures must show: a bar that each must pass, and an aim.

use crate::figures::{Figure, Figures};
use crate::many_tasks::{self, TEN_THOUSAND, THOUSAND, Way};
use crate::plan::Plan;
use crate::{asked, flatness, hand_offs, reach, storms, turns, waiting_memory};

pub struct Bar {
    pub what: String,
    pub figure: Option<f64>,
    pub unit: &'static str,
    bound: Bound,
    pub bar: f64,
    pub aim: f64,
    /// What the aim would take.
    pub why: &'static str,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast,
    AtMost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Aim,
    Bar,
    Missed,
    NotMeasured,
}

impl Bar {
    pub fn verdict(&self) -> Verdict {
        let Some(figure) = self.figure else { return Verdict::NotMeasured };
        // As exact as it is shown.
        let figure = (figure * 100.0).round() / 100.0;
        let passes = |limit| match self.bound {
            Bound::AtLeast => figure >= limit,
            Bound::AtMost => figure <= limit,
        };
        match (passes(self.aim), passes(self.bar)) {
            (true, _) => Verdict::Aim,
            (false, true) => Verdict::Bar,
            (false, false) => Verdict::Missed,
        }
    }

    pub fn limit(&self, limit: f64) -> String {
        let sign = match self.bound {
            Bound::AtLeast => "≥",
            Bound::AtMost => "≤",
        };
        format!("{sign} {limit}{}", self.unit)
    }
}

impl Verdict {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Aim => "aim met",
            Self::Bar => "bar met",
            Self::Missed => "**missed**",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Times fewer, or times as many.
const TIMES: &str = "×";

/// What counts repeat within: the aim of all that should not grow.
const FLAT: f64 = 1.02;

pub fn all(figures: &Figures, plan: &Plan) -> Vec<Bar> {
    let ratio = |one: &str, other: &str| figures.ratio(one, other);
    let at_least = |what: &str, figure, bar, aim, why| bar_of(what, figure, Bound::AtLeast, [bar, aim], why);
    let at_most = |what: &str, figure, bar, aim, why| bar_of(what, figure, Bound::AtMost, [bar, aim], why);
    let mut bars = vec![
        at_least("lock cycle: scripts (EVALSHA) / RLOCK", ratio("pair.scripts", "pair.rlock"), 3.0, 4.3, reach::CYCLE),
        at_least(
            "lock cycle: scripts with latch / RLOCK",
            ratio("pair.scripts_latch", "pair.rlock"),
            4.3,
            6.1,
            reach::CYCLE,
        ),
        at_most("lock cycle: RLOCK / SET NX PX + DEL", ratio("pair.rlock", "pair.set_del"), 1.9, 1.32, reach::CYCLE),
        at_most("busy acquire: RLOCK / SET NX miss", ratio("busy.rlock", "busy.set"), 1.1, 1.05, reach::BUSY),
        at_most("renew: RLOCK / PEXPIRE", ratio("renew.rlock", "renew.pexpire"), 1.55, 1.15, reach::BUSY),
        at_least(
            "cycle with AOF everysec: scripts / RLOCK",
            ratio("aof.scripts", "aof.rlock"),
            2.5,
            3.5,
            reach::FOLLOWERS,
        ),
        at_least(
            "cycle with one replica: scripts / RLOCK",
            ratio("replica.scripts", "replica.rlock"),
            2.8,
            3.5,
            reach::FOLLOWERS,
        ),
        at_least("read cycle: scripts / RLOCK", ratio("read.scripts", "read.rlock"), 4.0, 6.0, reach::READ_WRITE),
        at_least("write cycle: scripts / RLOCK", ratio("write.scripts", "write.rlock"), 4.0, 6.0, reach::READ_WRITE),
        at_least("permit cycle: scripts / RLOCK", ratio("permit.scripts", "permit.rlock"), 3.0, 3.5, ""),
        at_least("… the last of 4", ratio("permit.scripts_last", "permit.rlock_last"), 2.3, 2.5, ""),
        at_least(
            "pipelined cycles per second: RLOCK / SET NX PX + DEL",
            ratio("pipelined.rlock", "pipelined.set_del"),
            0.55,
            0.80,
            reach::CYCLE,
        ),
    ];
    for (waiters, bar, aim) in [(8, 1.5, 1.65), (64, 12.0, 13.5), (512, 100.0, 120.0)] {
        let figure = ratio(&format!("hand_offs.{waiters}.rlock"), &format!("hand_offs.{waiters}.pubsub"));
        bars.push(at_least(
            &format!("hand-offs per second, {waiters} waiters: RLOCK / pub/sub"),
            figure,
            bar,
            aim,
            reach::HAND_OFF,
        ));
    }
    bars.push(at_most(
        "one hand-off: RLOCK / BLPOP token",
        ratio("hand_off.64.rlock", "hand_off.64.token"),
        1.4,
        1.1,
        reach::HAND_OFF,
    ));
    let unfairness = figures.get("unfairness.512.rlock").map(Figure::highest);
    bars.push(Bar {
        unit: "",
        ..at_most("grants at 512 waiters, most − fewest, worst round", unfairness, 1.0, 0.0, reach::HAND_OFF)
    });
    let (locks, waiters) = (plan.many_locks, plan.many_waiters);
    let grown = |what: &str, many: usize| ratio(&format!("flat.{what}.{many}"), &format!("flat.{what}.1"));
    bars.extend([
        at_most(&format!("cycle: {locks} locks / 1"), grown("locks", locks), 1.15, FLAT, reach::CYCLE),
        at_most(&format!("release: {waiters} waiters / 1"), grown("waiters", waiters), 1.15, FLAT, reach::HAND_OFF),
        at_most("read release: 1000 readers / 1", grown("readers", 1_000), 1.15, FLAT, reach::READ_WRITE),
        // At most logarithmic: the logarithm of 1,000, to the base of two.
        at_most("… by the one with the longest lease", grown("last_reader", 1_000), 10.0, FLAT, reach::READ_WRITE),
    ]);
    let [_, some, most] = flatness::SETS;
    let figure = ratio(&format!("flat.sets.{most}"), &format!("flat.sets.{some}"));
    bars.push(at_most(&format!("releases: {most} who want several locks / {some}"), figure, 1.15, FLAT, ""));
    let waiters = hand_offs::PERMIT_WAITERS;
    let [ours, theirs] = ["rlock", "pubsub"].map(|id| format!("hand_offs.{waiters}.permits.{id}"));
    let what = format!("hand-offs per second of 4 permits, {waiters} waiters: RLOCK / pub/sub");
    bars.push(at_least(&what, ratio(&ours, &theirs), 8.0, 12.0, ""));
    for kind in ["plain", "read", "write"] {
        let figure = ratio(&format!("memory.{kind}.rlock"), &format!("memory.{kind}.scripts"));
        bars.push(at_most(
            &format!("memory of a held lock ({kind}): RLOCK / scripts"),
            figure,
            1.0,
            1.0,
            reach::READ_MEMORY,
        ));
    }
    bars.extend(of_waiting(figures, plan));
    bars.extend(of_sessions(figures, plan));
    bars.extend(of_crates(figures));
    bars.extend(of_many_tasks(figures));
    bars
}

/// What those cost who wait. Where nothing is to be set against it, it is bounded as it is.
fn of_waiting(figures: &Figures, plan: &Plan) -> Vec<Bar> {
    let at_most =
        |what: &str, unit, figure, bar, aim| Bar { unit, ..bar_of(what, figure, Bound::AtMost, [bar, aim], "") };
    let mut bars = Vec::new();
    let [one, few, many] = flatness::STAYING;
    for (staying, bar, aim) in [(few, 80.0, 10.0), (many, 2.0, 1.5)] {
        let worst = figures.get(&format!("flat.leaving.{staying}")).map(Figure::highest);
        let figure = worst.zip(figures.median(&format!("flat.leaving.{one}"))).map(|(worst, quiet)| worst / quiet);
        let what = format!("read release: the last {} of {staying} leave first, the worst / 1", flatness::LAST);
        bars.push(Bar { why: reach::READ_HOLDS, ..at_most(&what, TIMES, figure, bar, aim) });
    }
    for &locks in plan.idle_locks.iter().filter(|locks| **locks >= 10_000) {
        let [waiting, connected] = ["waiting", "connected"].map(|what| format!("idle.{locks}.{what}"));
        let what = format!("idle server: {locks} waited-for locks, more than as many connections");
        bars.push(at_most(&what, " % of a core", figures.difference(&waiting, &connected), 3.0, 1.0));
    }
    let [locks, clients] = [asked::LOCKS, asked::CLIENTS].map(|counts| counts[counts.len() - 1]);
    for (what, place, count) in [
        (format!("INFO and QUEUES, {locks} locks in the module, the slowest"), "table", locks),
        (format!("INFO and QUEUES, {clients} clients on a server, the slowest"), "server", clients),
    ] {
        bars.push(at_most(&what, " ms", slowest_answer(figures, place, count), 1.0, 1.0));
    }
    for (id, what, most) in [
        ("one_lock", "one lock for all", 400.0),
        ("one_lock_in_time", "one lock for all, each for some time", 500.0),
        ("lock_each", "a lock each", 700.0),
    ] {
        let figure = figures.median(&format!("memory.waiter.{id}"));
        bars.push(at_most(&format!("memory of a waiter, {what}"), " bytes", figure, most, most));
    }
    let leases_end = &storms::STORMS[0];
    let late = figures.median(&format!("storm.{}.late", leases_end.id));
    let what = format!("{} leases that end together: the slowest grant", leases_end.crowd);
    bars.push(at_most(&what, " ms", late, 250.0, 200.0));
    let silences = storms::STORMS.iter().map(|storm| figures.median(&format!("storm.{}.silence", storm.id)));
    let silence = silences.collect::<Option<Vec<_>>>().and_then(|silences| silences.into_iter().reduce(f64::max));
    let longest = at_most("thousands at one stroke: the longest PING", " ms", silence, 250.0, 30.0);
    bars.push(Bar { why: reach::AT_ONE_STROKE, ..longest });
    let turns = turns::CASES.iter().filter(|case| !case.id.starts_with("pause"));
    let turns = turns.map(|case| Some(figures.get(&format!("turn.{}", case.id))?.lowest())).collect::<Option<Vec<_>>>();
    let turn = turns.and_then(|turns| turns.into_iter().reduce(f64::max));
    bars.push(at_most("the longest turn by one command", " ms", turn, 5.0, 5.0));
    bars
}

/// What those cost who wait by session, set against the blocked clients of the same run.
fn of_sessions(figures: &Figures, plan: &Plan) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (scene, bar, aim) in [("100x8", 3.5, 3.7), ("1x64", 1.0, 1.1)] {
        let figure = figures.ratio(&format!("process.{scene}.tickets"), &format!("process.{scene}.rlock"));
        let what = format!("hand-offs of one process, {}: tickets / blocked clients", scene.replace('x', " × "));
        bars.push(bar_of(&what, figure, Bound::AtLeast, [bar, aim], ""));
    }
    let at_most =
        |what: &str, unit, figure, most: f64| Bar { unit, ..bar_of(what, figure, Bound::AtMost, [most, most], "") };
    let tickets = plan.many_tickets;
    for (kind, what, most) in
        [("tickets_one_lock", "one lock for all", 300.0), ("tickets_lock_each", "a lock each", 450.0)]
    {
        let all =
            waiting_memory::KINDS.iter().find(|it| it.id == kind).and_then(|it| figures.median(&it.figure(tickets)));
        let each = all.map(|bytes| bytes / tickets as f64);
        bars.push(at_most(&format!("memory of a ticket, {tickets} of them, {what}"), " bytes", each, most));
    }
    let slowest = slowest_answer(figures, "tickets", tickets);
    bars.push(at_most(&format!("INFO and QUEUES, {tickets} tickets on a server, the slowest"), " ms", slowest, 1.0));
    bars
}

/// A lock that nobody else wants, which is the commonest: beside a crate that keeps no lease alive.
fn of_crates(figures: &Figures) -> Vec<Bar> {
    let ratio = |what: &str| figures.ratio(&format!("{what}.rlock_client"), &format!("{what}.rslock"));
    let (cycles, cpu) = (ratio("crate.alone"), ratio("crate.alone_cpu"));
    vec![
        bar_of("alone, cycles per second: rlock-client / rslock", cycles, Bound::AtLeast, [1.1, 1.1], ""),
        bar_of("alone, CPU of a cycle: rlock-client / rslock", cpu, Bound::AtMost, [1.0, 1.0], ""),
    ]
}

/// What a process of many tasks costs that uses the crate, and how long its tasks wait.
fn of_many_tasks(figures: &Figures) -> Vec<Bar> {
    let at_most =
        |what: &str, unit, figure, most: f64| Bar { unit, ..bar_of(what, figure, Bound::AtMost, [most, most], "") };
    let against = |what: &str, other: Way| {
        figures.ratio(&THOUSAND.figure(what, Way::Rlock.id()), &THOUSAND.figure(what, other.id()))
    };
    let worst =
        |scene: many_tasks::Scene, what: &str| figures.get(&scene.figure(what, Way::Rlock.id())).map(Figure::highest);
    let others = Way::ALL.into_iter().filter(|way| *way != Way::Rlock);
    let longest = others.map(|other| against("wait.longest", other)).collect::<Option<Vec<_>>>();
    let longest = longest.and_then(|ratios| ratios.into_iter().reduce(f64::max));
    let megabytes = worst(THOUSAND, "memory").map(|bytes| bytes / 1e6);
    vec![
        at_most("1000 tasks: connections of rlock-client, worst round", "", worst(THOUSAND, "connections"), 3.0),
        at_most("1000 tasks: memory of the server for rlock-client, worst round", " MB", megabytes, 1.0),
        at_most("1000 tasks, client CPU: rlock-client / pub/sub", TIMES, against("client_cpu", Way::PubSub), 1.2),
        at_most("1000 tasks, server CPU: rlock-client / pub/sub", TIMES, against("server_cpu", Way::PubSub), 1.0),
        at_most("1000 tasks, the longest wait: rlock-client / the best other", TIMES, longest, 0.3),
        at_most("10000 tasks: connections of rlock-client, worst round", "", worst(TEN_THOUSAND, "connections"), 3.0),
    ]
}

/// In ms, if all were asked.
fn slowest_answer(figures: &Figures, place: &str, count: usize) -> Option<f64> {
    let times = asked::QUESTIONS.map(|id| figures.median(&format!("{place}.{id}.{count}")));
    let times: Vec<_> = times.into_iter().collect::<Option<_>>()?;
    Some(times.into_iter().fold(0.0, f64::max) / 1_000.0)
}

fn bar_of(what: &str, figure: Option<f64>, bound: Bound, [bar, aim]: [f64; 2], why: &'static str) -> Bar {
    Bar { what: what.to_owned(), figure, unit: TIMES, bound, bar, aim, why }
}
