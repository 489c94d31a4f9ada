//! A group of clients with real servers that work, are faulty, or are absent.

use super::work;
use crate::history::{Answer, Operation, Record, Side, pair, read_all};
use crate::plan::{Address, Client, ClientKind, Habits, Lock, LockKind, Plan};
use rlock_testing::{Server, wait_until};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const KINDS: [ClientKind; 3] = [ClientKind::Commands, ClientKind::Scripts, ClientKind::Guards];

/// The clients must have ended this long after the round; the second figure allows for a busy machine.
const TIDYING: Duration = Duration::from_millis(2_000 + 1_000);

/// Longer than a test, so that a lock that was not released is found.
const LEASE_MS: u64 = 30_000;

fn habits() -> Habits {
    Habits {
        lease_ms: LEASE_MS,
        waits_ms: vec![None, Some(0), Some(50), Some(300)],
        hold_ms: (0, 5),
        rest_ms: (0, 5),
        fenced: 50,
        reads: 50,
        enters_again: 20,
        renews: 0,
        stalls: 0,
        dies: 0,
        gives_up: 0,
        comes_back: 0,
    }
}

fn lock(name: &str, kind: LockKind, others: &[&str]) -> Lock {
    Lock { name: name.to_owned(), kind, others: others.iter().map(|other| (*other).to_owned()).collect() }
}

/// A client that wants a plain lock and a read-write lock.
fn client(kind: ClientKind, number: u32, habits: &Habits) -> Client {
    let locks = [lock("plain", LockKind::Plain, &[]), lock("read-write", LockKind::ReadWrite, &[])];
    Client {
        name: format!("{kind:?}-{number}"),
        seed: u64::from(number),
        kind,
        line: number,
        locks: locks.to_vec(),
        habits: habits.clone(),
    }
}

fn group(habits: &Habits) -> Vec<Client> {
    (0..).zip(KINDS.iter().cycle()).map(|(number, kind)| client(*kind, number, habits)).take(16).collect()
}

/// A plan with one group, and its records.
struct Trial {
    directory: TempDir,
    length: Duration,
}

impl Trial {
    fn of(address: Address, length_ms: u64, clients: Vec<Client>) -> Self {
        let directory = TempDir::with_prefix("rlock-chaos-").unwrap();
        let (path, groups) = (directory.path().to_owned(), vec![clients]);
        let plan = Plan { seed: 1, directory: path, address, length_ms, groups, adapters: Vec::new() };
        std::fs::write(directory.path().join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
        Self { directory, length: Duration::from_millis(length_ms) }
    }

    /// Runs the clients, which end in time.
    fn run(&self) -> Vec<Record> {
        let began = Instant::now();
        work(&self.directory.path().join("plan.json"), 0);
        assert!(began.elapsed() < self.length + TIDYING, "{:?}", began.elapsed());
        read_all(self.directory.path()).unwrap()
    }
}

fn here(server: &Server) -> Address {
    Address::Lines { ports: vec![server.port()] }
}

/// Repeats trials until no event is missing from their histories: on a busy machine less happens in the same time.
fn until_all_happened(mut trial: impl FnMut() -> Vec<Record>, missing: impl Fn(&[Operation]) -> Option<String>) {
    let mut operations = Vec::new();
    for _ in 0..15 {
        let records = trial();
        nothing_is_broken(&records);
        operations.extend(pair(&records));
        if missing(&operations).is_none() {
            return;
        }
    }
    panic!("{}", missing(&operations).unwrap_or_default());
}

fn of_kind(operations: &[Operation], kind: ClientKind) -> Vec<&Operation> {
    operations.iter().filter(|it| it.call.client.starts_with(&format!("{kind:?}-"))).collect()
}

fn grants(operations: &[&Operation]) -> usize {
    operations.iter().filter(|it| it.granted().is_some()).count()
}

fn nothing_is_broken(records: &[Record]) {
    let broken: Vec<_> = records.iter().filter(|it| matches!(it, Record::Broken { .. })).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// The locks and read holds that are left.
fn held(server: &Server) -> Vec<String> {
    let keys = server.client().keys();
    keys.into_iter().filter(|key| !key.starts_with("redisson_lock_token:")).collect()
}

#[test]
fn every_kind_gets_locks_and_gives_all_of_them_back() {
    let server = Server::start();
    // Two of each, with rests in which the locks are free: a script gets no lock that always has a queue.
    let habits = Habits { rest_ms: (0, 60), ..habits() };
    let mut clients: Vec<_> = group(&habits).into_iter().take(2 * KINDS.len()).collect();
    let has_permits = |kind| kind != ClientKind::Scripts;
    for client in clients.iter_mut().filter(|client| has_permits(client.kind)) {
        client.locks.push(lock("permits", LockKind::Permits, &[]));
    }
    for client in clients.iter_mut().filter(|client| client.kind == ClientKind::Commands) {
        client.locks.push(lock("one", LockKind::Plain, &["another", "a third"]));
    }
    let trial = || {
        let records = Trial::of(here(&server), 2_000, clients.clone()).run();
        wait_until("everything is released", || held(&server).is_empty());
        records
    };
    until_all_happened(trial, |operations| {
        KINDS.into_iter().find_map(|kind| {
            let operations = of_kind(operations, kind);
            let side_missing = Side::ALL.into_iter().filter(|side| *side != Side::Permit || has_permits(kind));
            let side_missing = side_missing
                .into_iter()
                .find(|side| !operations.iter().any(|it| it.asks_for() == Some(*side) && it.granted().is_some()));
            let of_several = operations.iter().any(|it| it.is_of_several() && it.granted().is_some());
            let is_enough =
                grants(&operations) > 5 && side_missing.is_none() && of_several == (kind == ClientKind::Commands);
            (!is_enough).then(|| {
                format!("{kind:?}: {} grants, none of {side_missing:?}, of several: {of_several}", grants(&operations))
            })
        })
    });
}

#[test]
fn callers_of_once_get_the_answers_of_leaders() {
    let server = Server::start();
    let habits = Habits { waits_ms: vec![None, Some(300)], ..habits() };
    let lock = lock("once", LockKind::Once { keep_ms: (10, 100) }, &[]);
    let clients: Vec<_> = (0..6)
        .map(|number| Client { locks: vec![lock.clone()], ..client(ClientKind::Commands, number, &habits) })
        .collect();
    let trial = || {
        let records = Trial::of(here(&server), 1_000, clients.clone()).run();
        wait_until("all is released, and answers expire", || held(&server).is_empty());
        records
    };
    until_all_happened(trial, |operations| {
        let answers: Vec<&Answer> = operations.iter().filter_map(Operation::known_answer).collect();
        let is_value = |it: &&&Answer| matches!(it, Answer::Got { value } if value.contains('='));
        let got = answers.iter().filter(is_value).count();
        let others = [Answer::Answered, Answer::Stored(true), Answer::Stored(false), Answer::Granted { token: None }];
        let missing: Vec<_> = others.iter().filter(|it| !answers.contains(it)).collect();
        (got == 0 || !missing.is_empty()).then(|| format!("{got} answers, none of {missing:?}"))
    });
}

#[test]
fn in_a_cluster_locks_are_asked_for_where_they_are() {
    let cluster = rlock_testing::Cluster::start();
    let ports: Vec<_> = cluster.masters.iter().map(Server::port).collect();
    let clients: Vec<_> = group(&Habits { waits_ms: vec![Some(100)], ..habits() })
        .into_iter()
        .map(|client| Client {
            locks: (0..3).map(|master| lock(&cluster.key_on(master), LockKind::Plain, &[])).collect(),
            ..client
        })
        .collect();
    let trial = || {
        let records = Trial::of(Address::Cluster { ports: ports.clone() }, 800, clients.clone()).run();
        for master in &cluster.masters {
            wait_until("everything is released", || held(master).is_empty());
        }
        records
    };
    until_all_happened(trial, |operations| {
        let refused = operations.iter().find(|it| it.failed());
        assert!(refused.is_none(), "no request is refused: {refused:?}");
        KINDS.into_iter().find_map(|kind| {
            // A script gets no lock that always has a queue.
            let is_served =
                |it: &&Operation| matches!(it.answer, Some((_, Answer::Granted { .. } | Answer::Refused { .. })));
            let locks: HashSet<_> =
                of_kind(operations, kind).into_iter().filter(is_served).map(|it| &it.call.lock).collect();
            (locks.len() != 3).then(|| format!("{kind:?} is served on {} of 3 masters", locks.len()))
        })
    });
}
