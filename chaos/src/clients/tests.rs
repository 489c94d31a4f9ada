//! A crew against real servers that are well, are bad, or are not there.

use super::work;
use crate::history::{Answer, Operation, Record, Request, Side, pair, read_all};
use crate::plan::{Address, ByTls, Client, ClientKind, Habits, LEASE_ALONE_MS, Lock, LockKind, Plan};
use crate::worlds::{Stage, World};
use rlock_testing::{Server, free_port, wait_until};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const KINDS: [ClientKind; 4] = [ClientKind::Commands, ClientKind::Sessions, ClientKind::Scripts, ClientKind::Guards];

/// Within this after its time a crew is at an end, whatever happens; and what a busy machine adds.
const TIDYING: Duration = Duration::from_millis(2_000 + 1_000);

/// Longer than a test: what is not given back is found.
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
        replicas: 0,
    }
}

fn lock(name: &str, kind: LockKind, others: &[&str]) -> Lock {
    Lock { name: name.to_owned(), kind, others: others.iter().map(|other| (*other).to_owned()).collect() }
}

/// Wants a plain lock and a read-write lock.
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

fn crew(habits: &Habits) -> Vec<Client> {
    (0..).zip(KINDS.iter().cycle()).map(|(number, kind)| client(*kind, number, habits)).take(16).collect()
}

/// A plan of one crew, and what came of it.
struct Trial {
    directory: TempDir,
    length: Duration,
}

impl Trial {
    fn of(address: Address, length_ms: u64, clients: Vec<Client>) -> Self {
        Self::by(address, None, length_ms, clients)
    }

    fn by(address: Address, by_tls: Option<ByTls>, length_ms: u64, clients: Vec<Client>) -> Self {
        let directory = TempDir::with_prefix("rlock-chaos-").unwrap();
        let (path, crews) = (directory.path().to_owned(), vec![clients]);
        let plan = Plan { seed: 1, directory: path, address, by_tls, length_ms, crews, adapters: Vec::new() };
        std::fs::write(directory.path().join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
        Self { directory, length: Duration::from_millis(length_ms) }
    }

    /// Runs the crew, which ends in time.
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

fn of_kind(operations: &[Operation], kind: ClientKind) -> Vec<&Operation> {
    operations.iter().filter(|it| it.call.client.starts_with(&format!("{kind:?}-"))).collect()
}

fn grants(operations: &[&Operation]) -> usize {
    operations.iter().filter(|it| it.granted().is_some()).count()
}

fn unknown(operations: &[&Operation]) -> usize {
    operations.iter().filter(|it| matches!(it.answer, Some((_, Answer::Unknown(_))))).count()
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
    // Two of each, with rests in which the locks are free: scripts get none that others queue for all the time.
    let habits = Habits { rest_ms: (0, 60), ..habits() };
    let mut clients: Vec<_> = crew(&habits).into_iter().take(2 * KINDS.len()).collect();
    let is_native = |kind| matches!(kind, ClientKind::Commands | ClientKind::Sessions);
    for client in clients.iter_mut().filter(|client| is_native(client.kind)) {
        client.locks.push(lock("permits", LockKind::Permits, &[]));
        client.locks.push(lock("one", LockKind::Plain, &["another", "a third"]));
    }
    let records = Trial::of(here(&server), 2_000, clients).run();
    nothing_is_broken(&records);
    let operations = pair(&records);
    for kind in KINDS {
        let operations = of_kind(&operations, kind);
        assert!(grants(&operations) > 5, "{kind:?}: {}", grants(&operations));
        for side in Side::ALL.into_iter().filter(|side| *side != Side::Permit || is_native(kind)) {
            let is_of_side = |request: &Request| matches!(request, Request::Acquire { side: it, .. } | Request::Guard { side: it, .. } if *it == side);
            let granted = operations.iter().any(|it| is_of_side(&it.call.request) && it.granted().is_some());
            assert!(granted, "{kind:?}: {side:?}");
        }
        let of_several = operations.iter().any(|it| it.is_of_several() && it.granted().is_some());
        assert_eq!(of_several, is_native(kind), "{kind:?}");
    }
    wait_until("all is given back", || held(&server).is_empty());
}

/// The address is that of nobody, so that none of them gets anything by it.
fn granted_by_tls(by_tls: ByTls) -> usize {
    let clients = (0..8).map(|number| client(ClientKind::Guards, number, &habits())).collect();
    let nowhere = Address::Lines { ports: vec![free_port(), free_port()] };
    let records = Trial::by(nowhere, Some(by_tls), 1_500, clients).run();
    nothing_is_broken(&records);
    grants(&pair(&records).iter().collect::<Vec<_>>())
}

#[test]
fn guards_come_by_tls_also_to_a_server_that_was_restarted_and_trust_no_other() {
    let directory = TempDir::with_prefix("rlock-chaos-").unwrap();
    let mut world = World::start(Stage::default(), directory.path());
    // Built without it.
    let Some(by_tls) = world.by_tls() else { return };
    assert!(granted_by_tls(by_tls.clone()) > 0);
    world.nodes[0].kill();
    world.calm().unwrap();
    assert!(granted_by_tls(by_tls.clone()) > 0);
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem();
    assert_eq!(granted_by_tls(ByTls { certificate: other, ..by_tls }), 0);
    wait_until("all is given back", || held(world.nodes[0].server.as_ref().unwrap()).is_empty());
}

#[test]
fn whoever_comes_from_outside_is_somebody_new() {
    let server = Server::start();
    let clients = crew(&Habits { enters_again: 0, ..habits() });
    let operations = pair(&Trial::of(here(&server), 500, clients).run());
    let mut known = HashSet::new();
    for Operation { call, .. } in &operations {
        assert!(call.holder.starts_with(&format!("{}:", call.client)), "{call:?}");
        let enters = match call.request {
            // Of what it does not know it asks again, by the same ticket.
            Request::Acquire { session: Some(_), .. } if known.contains(&call.holder) => false,
            // A writer may read as well.
            Request::Acquire { side, .. } => side != Side::Read || !known.contains(&call.holder),
            Request::Guard { .. } => true,
            Request::Renew { .. } | Request::Release { .. } | Request::Cancel { .. } => false,
        };
        assert_eq!(enters, known.insert(call.holder.clone()), "{call:?}");
    }
    assert!(known.len() > 20);
}

#[test]
fn calls_are_numbered_and_answered_after_they_were_made() {
    let server = Server::start();
    let records = Trial::of(here(&server), 300, crew(&habits())).run();
    for client in crew(&habits()) {
        let calls: Vec<_> = pair(&records).into_iter().filter(|it| it.call.client == client.name).collect();
        let numbers: Vec<_> = calls.iter().map(|it| it.call.number).collect();
        assert_eq!(numbers, (1..=calls.len() as u64).collect::<Vec<_>>(), "{}", client.name);
        for call in &calls {
            let answered = call.answer.as_ref().map(|(at, _)| *at);
            assert!(answered.is_some_and(|at| at >= call.call.at), "{call:?}");
        }
    }
}

#[test]
fn nothing_is_vouched_for_after_the_end() {
    let server = Server::start();
    let habits = Habits { lease_ms: 1_000, hold_ms: (50, 100), ..habits() };
    let records = Trial::of(here(&server), 500, crew(&habits)).run();
    let (mut ended, mut vouched) = (HashSet::new(), 0);
    for record in &records {
        match record {
            Record::Ended { client, number, .. } => assert!(ended.insert((client, number)), "{record:?}"),
            Record::Vouched { at, client, number, until } => {
                assert!(at < until && !ended.contains(&(client, number)), "{record:?}");
                vouched += 1;
            }
            _ => {}
        }
    }
    let grants = pair(&records)
        .iter()
        .filter(|it| matches!(it.call.request, Request::Guard { .. }) && it.granted().is_some())
        .count();
    assert!(vouched > grants, "{vouched} for {grants}");
    assert_eq!(ended.len(), grants);
}

#[test]
fn a_connection_that_breaks_leaves_open_what_was_done_and_is_made_anew() {
    let server = Server::start();
    let trial = Trial::of(here(&server), 1_000, crew(&Habits { waits_ms: vec![Some(0)], ..habits() }));
    let is_over = AtomicBool::new(false);
    let records = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                client.say("CLIENT KILL TYPE normal");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let records = trial.run();
        is_over.store(true, Ordering::Relaxed);
        records
    });
    nothing_is_broken(&records);
    let operations = pair(&records);
    let by_commands = of_kind(&operations, ClientKind::Commands);
    assert!(unknown(&by_commands) > 0);
    let first = by_commands.iter().position(|it| matches!(it.answer, Some((_, Answer::Unknown(_))))).unwrap();
    assert!(grants(&by_commands[first..]) > 0, "it goes on");
    for (place, operation) in by_commands.iter().enumerate() {
        let (is_acquire, answer) = (matches!(operation.call.request, Request::Acquire { .. }), &operation.answer);
        if is_acquire && matches!(answer, Some((_, Answer::Unknown(_)))) {
            let later = by_commands[place + 1..].iter().filter(|it| it.call.holder == operation.call.holder);
            let gives_back =
                later.map(|it| &it.call.request).any(|it| matches!(it, Request::Release { all: true, .. }));
            assert!(gives_back, "{operation:?}");
        }
    }
}

#[test]
fn who_waits_for_ever_waits_no_longer_than_the_round() {
    let server = Server::start();
    let mut somebody = server.client();
    somebody.say("RLOCK.ACQUIRE plain somebody 30000");
    somebody.say("RLOCK.WACQUIRE read-write somebody 30000");
    let clients = crew(&Habits { waits_ms: vec![Some(0)], ..habits() });
    let began = Instant::now();
    let operations = pair(&Trial::of(here(&server), 300, clients).run());
    assert!(began.elapsed() < Duration::from_millis(1_300), "{:?}", began.elapsed());
    let count = |is: fn(&Request) -> bool, answers: fn(&Answer) -> bool| {
        let is_wanted = |it: &&Operation| !it.call.lock.starts_with("alone:");
        let known = |it: &&Operation| it.answer.as_ref().is_some_and(|(_, answer)| answers(answer));
        operations.iter().filter(|it| is(&it.call.request)).filter(is_wanted).filter(known).count()
    };
    assert_eq!(count(|it| matches!(it, Request::Guard { .. }), |it| matches!(it, Answer::Unknown(_))), 4);
    assert!(count(|it| matches!(it, Request::Acquire { .. }), |it| matches!(it, Answer::Unknown(_))) >= 4);
    assert_eq!(count(|_| true, |it| matches!(it, Answer::Granted { .. })), 0);
}

#[test]
fn a_server_that_stands_still_holds_up_nobody_at_the_end() {
    let server = Server::start();
    let trial = Trial::of(here(&server), 400, crew(&habits()));
    let records = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            wait_until("clients are at work", || client.figure("grants") > 0);
            server.freeze();
        });
        trial.run()
    });
    server.thaw();
    nothing_is_broken(&records);
    let operations = pair(&records);
    assert!(unknown(&operations.iter().collect::<Vec<_>>()) > 0);
}

#[test]
fn where_nobody_is_nothing_is_called() {
    let nowhere = Address::Lines { ports: vec![free_port()] };
    let records = Trial::of(nowhere, 200, crew(&habits())).run();
    assert!(records.is_empty(), "{records:?}");
}

#[test]
fn who_gives_up_or_dies_does_not_know() {
    let server = Server::start();
    let habits = Habits { lease_ms: 50, stalls: 20, dies: 20, gives_up: 50, renews: 20, ..habits() };
    let records = Trial::of(here(&server), 600, crew(&habits)).run();
    nothing_is_broken(&records);
    let operations = pair(&records);
    let renewed = |yes| operations.iter().any(|it| matches!(it.answer, Some((_, Answer::Renewed(is))) if is == yes));
    assert!(renewed(true) && renewed(false));
    assert!(unknown(&of_kind(&operations, ClientKind::Commands)) > 0);
    assert!(operations.iter().any(|it| matches!(it.answer, Some((_, Answer::Released(None))))), "some came too late");
}

#[test]
fn what_is_not_confirmed_is_given_back_at_once() {
    let server = Server::start();
    // Each kind by itself: while one waits for replicas, in vain, others get nothing.
    let operations = |kind| {
        let habits = Habits { replicas: 1, enters_again: 100, ..habits() };
        let clients = crew(&habits).into_iter().filter(|client| client.kind == kind).collect();
        pair(&Trial::of(here(&server), 800, clients).run())
    };
    for kind in [ClientKind::Commands, ClientKind::Scripts] {
        let operations = operations(kind);
        assert!(grants(&of_kind(&operations, kind)) > 0, "{kind:?}");
        let mut acquired = HashSet::new();
        for Operation { call, .. } in operations {
            match call.request {
                Request::Acquire { .. } => assert!(acquired.insert(call.holder), "nobody enters again"),
                Request::Release { all, .. } => assert_eq!(all, kind == ClientKind::Commands, "{call:?}"),
                _ => {}
            }
        }
    }
    let by_guards = operations(ClientKind::Guards);
    assert!(!by_guards.is_empty());
    assert_eq!(grants(&of_kind(&by_guards, ClientKind::Guards)), 0);
    wait_until("all is given back", || held(&server).is_empty());
}

#[test]
fn who_has_waited_renews_before_anything_else() {
    let server = Server::start();
    let records = Trial::of(here(&server), 500, crew(&habits())).run();
    let operations = pair(&records);
    let (mut after_a_wait, mut known) = (0, HashSet::new());
    for (place, operation) in operations.iter().enumerate() {
        let Request::Acquire { wait_ms, .. } = operation.call.request else { continue };
        let from_outside = known.insert(&operation.call.holder);
        if from_outside && wait_ms.is_some() && operation.granted().is_some() {
            let next = operations[place + 1..].iter().find(|it| it.call.holder == operation.call.holder);
            let next = next.map(|it| &it.call.request);
            let is_left = operation.queued.is_some() && matches!(next, None | Some(Request::Cancel { .. }));
            let lease_ms = if operation.call.lock.starts_with("alone:") { LEASE_ALONE_MS } else { LEASE_MS };
            assert!(is_left || next == Some(&Request::Renew { lease_ms }), "{operation:?}, {next:?}");
            after_a_wait += 1;
        }
    }
    assert!(after_a_wait > 5, "{after_a_wait}");
}

#[test]
fn in_a_cluster_locks_are_asked_for_where_they_are() {
    let cluster = rlock_testing::Cluster::start();
    let ports = cluster.masters.iter().map(Server::port).collect();
    // Without transactions, which are not sent on.
    let clients: Vec<_> = crew(&Habits { waits_ms: vec![Some(100)], ..habits() })
        .into_iter()
        .map(|client| Client {
            locks: (0..3).map(|master| lock(&cluster.key_on(master), LockKind::Plain, &[])).collect(),
            ..client
        })
        .collect();
    let records = Trial::of(Address::Cluster { ports }, 800, clients).run();
    nothing_is_broken(&records);
    let operations = pair(&records);
    // Who comes to the wrong place with a session is told that it has none where it is sent to.
    let is_refused = |answer: &Answer| matches!(answer, Answer::Failed(line) if !line.starts_with("NOSESSION "));
    let refused = operations.iter().find(|it| it.answer.as_ref().is_some_and(|(_, answer)| is_refused(answer)));
    assert!(refused.is_none(), "nobody is sent away: {refused:?}");
    for kind in [ClientKind::Commands, ClientKind::Sessions, ClientKind::Scripts, ClientKind::Guards] {
        let operations = of_kind(&operations, kind);
        // Scripts get no lock that others queue for all the time.
        let is_served =
            |it: &&&Operation| matches!(it.answer, Some((_, Answer::Granted { .. } | Answer::Refused { .. })));
        let locks: HashSet<_> = operations.iter().filter(is_served).map(|it| &it.call.lock).collect();
        assert_eq!(locks.iter().filter(|lock| !lock.starts_with("alone:")).count(), 3, "{kind:?}");
    }
    for master in &cluster.masters {
        wait_until("all is given back", || held(master).is_empty());
    }
}

#[test]
fn whoever_waits_by_ticket_is_told_and_does_to_its_session_what_happens_to_sessions() {
    let server = Server::start();
    let habits = Habits { lease_ms: 1_000, waits_ms: vec![Some(0), Some(500)], hold_ms: (0, 3), ..habits() };
    let clients = (0..24).map(|number| client(ClientKind::Sessions, number, &habits)).collect();
    let records = Trial::of(here(&server), 3_000, clients).run();
    let verdict = crate::checker::check(&records);
    assert!(verdict.violations.is_empty(), "{verdict}");
    assert!(verdict.figures.of("by ticket") > 50, "{verdict}");
    let operations = pair(&records);
    let count = |is: fn(&Operation) -> bool| operations.iter().filter(|it| is(it)).count();
    assert!(count(|it| matches!(it.answer, Some((_, Answer::Cancelled(Some(true)))))) > 0, "some are taken back");
    let session = |it: &Operation| it.call.holder.clone();
    let again = operations.iter().filter(|it| it.queued.is_some()).map(session).collect::<Vec<_>>();
    assert!(again.len() > again.iter().collect::<HashSet<_>>().len(), "some ask again with the same ticket");
    let polls = || records.iter().filter_map(|it| if let Record::Polled(poll) = it { Some(poll) } else { None });
    assert!(
        polls().any(|poll| poll.ends) && polls().any(|poll| poll.connection > 1) && polls().any(|poll| poll.ack > 1)
    );
    let alone =
        |it: &&Operation| it.call.lock.starts_with("alone:") && matches!(it.call.request, Request::Renew { .. });
    assert!(operations.iter().filter(alone).any(|it| matches!(it.answer, Some((_, Answer::Renewed(true))))));
    wait_until("sessions end", || server.client().figure("sessions") == 0);
    wait_until("all is given back", || held(&server).is_empty());
}
