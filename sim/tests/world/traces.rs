//! What the engine and the client did to one lock, as steps of docs/spec/lock.qnt: `make spec` replays them there, and each
//! must be allowed. The lock is what servers have stored; a client is a holder name.
//!
//! These histories move by whole ms, as the specification does. Their clocks differ but go right. They delete no lock.

use crate::histories::{Style, draw, setup};
use crate::protection::{Protection, failovers};
use crate::world::{HOSTS, Move, Topology, World};
use rlock_core::lock::Expiry;
use rlock_sim::Value;
use rlock_testing::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

const LOCK: &str = "a";
const OFFSETS_MS: [i64; 3] = [0, 300, -250];

/// A holder, how often it has acquired the lock, and the end of its lease by the wall clock.
type Record = (String, u64, i64);

#[derive(Default)]
pub struct Trace {
    steps: Vec<String>,
    at: Duration,
    records: BTreeMap<usize, Record>,
    tokens: BTreeMap<usize, i64>,
    sure_until: BTreeMap<String, Duration>,
    holders: BTreeSet<String>,
}

impl Trace {
    fn step(&mut self, at: Duration, step: String) {
        let passed = (at - self.at).as_millis();
        if passed > 0 {
            self.steps.push(format!("pass({passed})"));
        }
        self.at = at;
        self.steps.push(step);
    }
}

impl World {
    /// Rounds up to a whole ms while steps are noted, so that nothing is due between two ms.
    pub fn whole_ms(&self, at: Duration) -> Duration {
        let part = Duration::from_nanos(u64::from(at.subsec_nanos() % 1_000_000));
        if self.trace.is_none() || part.is_zero() { at } else { at - part + Duration::from_millis(1) }
    }

    /// Notes an act of a failover that is about to happen.
    pub fn trace_move(&mut self, taken: &Move) {
        use crate::server::Health::{Down, Suspended, Up};
        let health = |server: usize| self.servers[server].health;
        let is_cut_off = |server: usize| self.servers[server].is_cut_off;
        let (name, server, is_possible) = match *taken {
            Move::IsKilled(server) => ("kill", server, health(server) != Down),
            Move::Restarts { server, keeps: true } => ("restartWith", server, true),
            Move::Restarts { server, keeps: false } => ("restartWithout", server, true),
            Move::IsSuspended(server) => ("suspend", server, health(server) == Up),
            Move::Resumes(server) => ("resume", server, health(server) == Suspended),
            Move::IsCutOff(server) => ("cutOff", server, !is_cut_off(server)),
            Move::Joins(server) => ("join", server, is_cut_off(server)),
            Move::IsPromoted(server) => ("promote", server, self.can_promote(server)),
            Move::Follows(server) => ("follow", server, self.can_follow(server)),
            _ => return,
        };
        let (at, loses) = (self.at, name == "restartWithout");
        let Some(trace) = self.trace.as_mut().filter(|_| is_possible) else { return };
        trace.step(at, format!("{name}({:?})", HOSTS[server]));
        if loses {
            trace.records.remove(&server);
            trace.tokens.remove(&server);
        }
    }

    /// Notes what has become of the lock at a master.
    pub fn trace_lock(&mut self, number: usize) {
        let (at, server) = (self.at, &self.servers[number]);
        let Some(trace) = self.trace.as_mut().filter(|_| server.is_master()) else { return };
        let keyspace = server.node.host.keyspace.borrow();
        let after = keyspace.get(0, LOCK.as_bytes()).map(|entry| {
            let (Value::Hash(fields), Expiry::At(end)) = (&entry.value, entry.expiry) else { panic!("not a lock") };
            let [(holder, count)] = &fields[..] else { panic!("one holder") };
            (crate::server::text(holder), crate::server::number(count), end)
        });
        let (now, host) = (server.node.now(), HOSTS[number]);
        let before = trace.records.remove(&number).filter(|(_, _, end)| *end >= now);
        if let Some((holder, ..)) = &before {
            if after.as_ref().is_none_or(|after| after.0 != *holder) {
                trace.step(at, format!("release({holder:?}, {host:?}, true)"));
            }
        }
        let Some((holder, count, end)) = after else { return };
        let had = before.as_ref().filter(|before| before.0 == holder);
        let lease = end - now;
        if had.is_none_or(|had| had.1 < count) {
            let token = keyspace.fencing_token(0, LOCK.as_bytes()).unwrap_or(0);
            let is_fenced = trace.tokens.insert(number, token).unwrap_or(0) != token;
            // Counted from the beginning of the history, unless tokens go by the counter alone.
            let token = if is_fenced && token > 1_000_000 { token - 1_700_000_000_000_000 } else { token };
            let token = if is_fenced { token } else { 0 };
            trace.holders.insert(holder.clone());
            trace.step(at, format!("acquire({holder:?}, {host:?}, {lease}, {token}, true)"));
        } else if had.is_some_and(|had| had.2 != end) {
            trace.step(at, format!("renew({holder:?}, {host:?}, {lease}, true)"));
        }
        trace.records.insert(number, (holder, count, end));
    }

    /// Notes that a replica has got what its master has.
    pub fn trace_replica(&mut self, replica: usize, master: usize) {
        let Some(trace) = &mut self.trace else { return };
        let (record, token) = (trace.records.get(&master).cloned(), trace.tokens.get(&master).copied());
        if record == trace.records.get(&replica).cloned() && token == trace.tokens.get(&replica).copied() {
            return;
        }
        trace.step(self.at, format!("replicate({:?})", HOSTS[replica]));
        trace.records.remove(&replica);
        trace.tokens.remove(&replica);
        trace.records.extend(record.map(|record| (replica, record)));
        trace.tokens.extend(token.map(|token| (replica, token)));
    }

    /// Notes until when the callers of a program are sure of the lock.
    pub fn trace_beliefs(&mut self, program: usize) {
        let Some(trace) = &mut self.trace else { return };
        let it = &self.programs[program];
        for guard in it.guards.values().filter(|guard| guard.key == LOCK) {
            let left = it.left(&guard.grant, self.at);
            let until = self.at + left;
            if !left.is_zero() && trace.sure_until.insert(guard.holder.clone(), until) != Some(until) {
                trace.step(self.at, format!("believe({:?}, {})", guard.holder, until.as_millis()));
            }
        }
    }
}

/// Leads a history, and returns what became of the lock.
fn lead(style: Style, seed: u64) -> Trace {
    let mut random = Random::from(seed);
    let mut setup = setup(style, seed, &mut random);
    for (clock, offset_ms) in setup.servers.iter_mut().zip(OFFSETS_MS) {
        clock.offset_ms = offset_ms;
    }
    let mut world = World::new(&setup);
    world.trace = Some(Trace::default());
    for _ in 0..style.moves {
        let next = draw(&world, style, &mut random);
        if !matches!(next, Move::Deletes(_)) {
            world.take(next);
        }
    }
    world.trace.take().expect("a trace")
}

/// A rule, and how it is switched off in the engine or around it. The names are those of docs/spec/lock.qnt.
type Rule = (&'static str, fn(&mut Protection));
const RULES: [Rule; 7] = [
    ("allRules", |_| {}),
    ("noGrace", |protection| protection.grace = Duration::ZERO),
    ("noGraceAtAStart", |protection| protection.start_begins_grace = false),
    ("theOldMasterGoesOn", |protection| protection.lag = None),
    ("theFailoverIsAtOnce", |protection| protection.failover = Duration::from_millis(1)),
    ("aSuspendedMasterTrusts", |protection| protection.standstill_is_noticed = false),
    ("tokensAreCounted", |protection| protection.tokens_by_clock = false),
];

/// Histories without a rule may break a promise or not: the specification must refuse them at the step that the rule
/// forbids. They are written to `SPEC_TRACES=FILE`.
#[test]
fn histories_for_the_specification() {
    let (mut runs, mut holders, mut steps) = (String::new(), BTreeSet::new(), 0);
    for (rule, change) in RULES {
        for topology in [Topology::Single, Topology::Sentinels, Topology::Cluster] {
            for seed in 0..3 {
                let mut style = Style {
                    clocks: false,
                    stalls: false,
                    faults: 0,
                    server_faults: 6,
                    moves: 1_000,
                    ..failovers(topology)
                };
                change(&mut style.protection);
                style.protection.promises_one_holder = rule == "allRules";
                let trace = lead(style, seed);
                let begins = "begin(\"one\", ahead, SERVERS.mapBy(_ => 0), CLIENTS.mapBy(_ => 0))";
                write!(runs, "\n  run {rule}_{topology:?}_{seed} = {begins}").expect("it has room");
                trace.steps.iter().for_each(|step| write!(runs, "\n    .then({step})").expect("it has room"));
                steps += trace.steps.len();
                holders.extend(trace.holders);
            }
        }
    }
    for act in ["acquire", "renew", "release", "believe", "replicate", "promote", "follow"] {
        assert!(runs.matches(&format!("({act}(")).count() > 20, "too few histories {act}");
    }
    println!("{steps} steps");
    let Ok(file) = std::env::var("SPEC_TRACES") else { return };
    let holders: Vec<_> = holders.iter().map(|holder| format!("{holder:?}")).collect();
    let ahead: Vec<_> = HOSTS.iter().zip(OFFSETS_MS).map(|(host, ms)| format!("{host:?} -> {ms}")).collect();
    let (holders, ahead) = (holders.join(", "), ahead.join(", "));
    let text = include_str!("traces.qnt").replace("HOLDERS", &holders).replace("AHEAD", &ahead).replace("RUNS", &runs);
    std::fs::write(file, text).expect("the file of the traces");
}
