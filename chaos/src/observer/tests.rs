//! The observer, with real servers.

use super::watch::{STALL, Watch};
use super::{Observer, SILENCE};
use crate::history::{Journal, Moment, Reach, Record, Sample, Side, WaitsBy, read_all};
use rlock_testing::{Reply, Server, start_waiting, wait_until};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const EVERY: Duration = Duration::from_millis(5);

struct Run {
    directory: TempDir,
    targets: Arc<Mutex<Vec<String>>>,
    observer: Observer,
}

impl Run {
    fn start(servers: &[(&str, &Path)], locks: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let journal = Journal::open(directory.path(), "observer").unwrap();
        let targets: Vec<_> = servers.iter().map(|(name, _)| (*name).to_owned()).collect();
        let servers = servers.iter().map(|(name, socket)| ((*name).to_owned(), socket.to_path_buf())).collect();
        let targets = Arc::new(Mutex::new(targets));
        let locks: Vec<_> = locks.iter().map(|lock| (*lock).to_owned()).collect();
        let observer = Observer::start(&journal, servers, &targets, &locks, EVERY);
        Self { directory, targets, observer }
    }

    fn samples(&self) -> Vec<Sample> {
        samples(self.directory.path())
    }

    fn wait_for(&self, what: &str, condition: impl Fn(&Sample) -> bool) -> Sample {
        wait_until(what, || self.samples().iter().any(&condition));
        self.samples().into_iter().find(condition).unwrap()
    }

    fn stop(self) -> (u64, Vec<Record>) {
        let samples = self.observer.stop();
        (samples, read_all(self.directory.path()).unwrap())
    }
}

fn samples(directory: &Path) -> Vec<Sample> {
    let records = read_all(directory).unwrap();
    records
        .into_iter()
        .filter_map(|record| if let Record::Seen(sample) = record { Some(sample) } else { None })
        .collect()
}

fn measured(records: &[Record], name: &str) -> Vec<f64> {
    let value = |record: &Record| match record {
        Record::Measured { what, value, .. } if what == name => Some(*value),
        _ => None,
    };
    records.iter().filter_map(value).collect()
}

#[test]
fn permits_have_a_limit_and_waiters_for_several_locks_are_known() {
    let server = Server::start();
    let run = Run::start(&[("a", &server.socket())], &["permits", "one"]);
    let mut client = server.client();
    client.say("RLOCK.PACQUIRE permits me 60000 LIMIT 1");
    client.say("RLOCK.ACQUIRE one me 60000");
    let _permits = start_waiting(&server, "RLOCK.PACQUIRE permits you 60000 LIMIT 1 WAIT 0");
    let permits = run.wait_for("a permit", |it| it.lock == "permits" && it.waiters.len() == 1);
    assert_eq!(
        (permits.holders[0].side, permits.waiters[0].side, permits.waiters[0].limit),
        (Side::Permit, Side::Permit, 1)
    );
    let _several = start_waiting(&server, "RLOCK.MACQUIRE 2 one two you 60000 WAIT 0");
    let several = run.wait_for("several", |it| it.lock == "one" && it.waiters.len() == 1);
    assert!(several.waiters[0].is_for_several() && !permits.waiters[0].is_for_several());
}

#[test]
fn a_stalled_machine_is_recorded() {
    let directory = TempDir::new().unwrap();
    let journal = Journal::open(directory.path(), "observer").unwrap();
    let watch = Watch::new(journal, "a".to_owned(), "/nowhere/socket".into(), Vec::new());
    let began = Moment::now();
    watch.note_stall(began, EVERY, began + EVERY + STALL / 2);
    assert_eq!(read_all(directory.path()).unwrap(), []);
    watch.note_stall(began, EVERY, began + EVERY + STALL);
    let [Record::Troubled(trouble)] = &read_all(directory.path()).unwrap()[..] else { panic!("it is noted once") };
    assert_eq!(trouble.ended.since(trouble.began), EVERY + STALL);
    assert_eq!(trouble.reach, Reach::NoWrites { server: "a".to_owned() });
}

#[test]
fn holders_and_waiters_are_seen_in_their_order() {
    let server = Server::start();
    let run = Run::start(&[("a", &server.socket())], &["hot", "book", "never used"]);
    let mut holder = server.client();
    assert_eq!(holder.say("RLOCK.ACQUIRE hot me 60000"), Reply::Nil);
    assert_eq!(holder.say("RLOCK.ACQUIRE hot me 60000"), Reply::Nil);
    let mut waiters = Vec::new();
    for name in ["first", "second", "third"] {
        waiters.push(start_waiting(&server, &format!("RLOCK.ACQUIRE hot {name} 60000 WAIT 0")));
    }
    let all = run.wait_for("all three", |it| it.lock == "hot" && it.waiters.len() == 3);
    assert!(all.asked <= all.answered);
    assert_eq!((all.server.as_str(), all.holders.len()), ("a", 1));
    let held = &all.holders[0];
    assert_eq!((held.holder.as_str(), held.side, held.count), ("me", Side::Plain, 2));
    assert!((1..=60_000).contains(&all.ttl_ms) && held.ttl_ms.is_some_and(|it| (1..=60_000).contains(&it)));
    let names: Vec<_> = all.waiters.iter().map(|it| (it.holder.as_str(), it.side)).collect();
    assert_eq!(names, [("first", Side::Plain), ("second", Side::Plain), ("third", Side::Plain)]);
    assert!(all.waiters.is_sorted_by_key(|it| it.by.client()) && all.waiters[0].waited_ms >= all.waiters[2].waited_ms);

    assert_eq!(holder.say("RLOCK.WACQUIRE book writer 60000"), Reply::Nil);
    waiters.push(start_waiting(&server, "RLOCK.RACQUIRE book reader 60000 WAIT 0"));
    let book = run.wait_for("the reader", |it| it.lock == "book" && it.waiters.len() == 1);
    assert_eq!((book.holders[0].side, book.waiters[0].side), (Side::Write, Side::Read));

    let (samples, records) = run.stop();
    let seen = records.iter().filter(|it| matches!(it, Record::Seen(_))).count() as u64;
    assert_eq!(samples, seen);
    assert!(!records.iter().any(|it| matches!(it, Record::Seen(it) if it.lock == "never used")));
}

#[test]
fn a_ticket_is_seen_with_whether_its_session_is_attended() {
    let server = Server::start();
    let run = Run::start(&[("a", &server.socket())], &["hot"]);
    let mut client = server.client();
    assert_eq!(client.say("RLOCK.ACQUIRE hot me 60000"), Reply::Nil);
    let mut poller = server.client();
    assert_eq!(poller.say("RLOCK.EVENTS 0123456789abcdef TTL 60000"), Reply::List(Vec::new()));
    let waiting = client.say("RLOCK.ACQUIRE hot you 60000 WAIT 0 SESSION 0123456789abcdef ticket");
    assert_eq!(waiting, Reply::Text("WAITING".to_owned()));
    let connection = Some(poller.say("CLIENT ID").as_int());
    let by = |connection, is_attended| WaitsBy::Ticket { name: "ticket".to_owned(), connection, is_attended };
    let is_by = |it: &Sample, by: &WaitsBy| it.waiters.iter().any(|waiting| waiting.by == *by);
    run.wait_for("it is attended", |it| is_by(it, &by(connection, true)));
    drop(poller);
    run.wait_for("it is unattended", |it| is_by(it, &by(None, false)));
}

#[test]
fn locks_that_are_waited_for_are_found_and_followed_until_they_are_free() {
    let server = Server::start();
    let run = Run::start(&[("a", &server.socket())], &["hot"]);
    let mut holder = server.client();
    assert_eq!(holder.say("RLOCK.ACQUIRE cold:1 me 60000"), Reply::Nil);
    let mut waiting = start_waiting(&server, "RLOCK.ACQUIRE cold:1 you 60000 WAIT 0");
    run.wait_for("the queue", |it| it.lock == "cold:1" && it.waiters.len() == 1);
    assert_eq!(holder.say("RLOCK.RELEASE cold:1 me"), Reply::Int(1));
    assert_eq!(waiting.receive(), Reply::Nil);
    run.wait_for("the next holder", |it| it.waiters.is_empty() && it.holders.iter().any(|it| it.holder == "you"));
    assert_eq!(holder.say("RLOCK.RELEASE cold:1 you"), Reply::Int(1));
    run.wait_for("it is free", |it| it.lock == "cold:1" && it.holders.is_empty());
}

#[test]
fn a_silent_server_is_measured_and_others_are_still_observed() {
    let (silent, other) = (Server::start(), Server::start());
    let run = Run::start(&[("silent", &silent.socket()), ("other", &other.socket())], &["hot"]);
    assert_eq!(silent.client().say("RLOCK.ACQUIRE hot me 600000"), Reply::Nil);
    run.wait_for("it is looked at", |it| it.server == "silent");
    silent.freeze();
    let began = std::time::Instant::now();
    assert_eq!(other.client().say("RLOCK.ACQUIRE hot me 60000"), Reply::Nil);
    run.wait_for("the other is looked at", |it| it.server == "other");
    // Longer than a connection is kept.
    wait_until("it is asked again", || began.elapsed() > Duration::from_millis(3_500));
    silent.thaw();
    let frozen = began.elapsed().as_secs_f64() * 1_000.0;
    let before = run.samples().iter().filter(|it| it.server == "silent").count();
    wait_until("it is seen again", || run.samples().iter().filter(|it| it.server == "silent").count() > before);

    let (_, records) = run.stop();
    let [longest] = measured(&records, SILENCE)[..] else { panic!("it is written once") };
    assert!(longest >= frozen - 1_000.0, "it was silent for {frozen} ms, not {longest}");
    assert!(measured(&records, "silence of server silent, ms").contains(&longest));
    assert_eq!(measured(&records, "longest silence of server silent, ms"), [longest]);
    assert!(measured(&records, "longest silence of server other, ms")[0] < longest);
}

#[test]
fn servers_come_and_go() {
    let (first, second) = (Server::start(), Server::start());
    let run = Run::start(&[("first", &first.socket()), ("second", &second.socket())], &["hot"]);
    run.targets.lock().unwrap().pop();
    for server in [&first, &second] {
        assert_eq!(server.client().say("RLOCK.ACQUIRE hot me 60000"), Reply::Nil);
    }
    run.wait_for("the first", |it| it.server == "first");
    run.targets.lock().unwrap().push("second".to_owned());
    run.wait_for("the second", |it| it.server == "second");

    let again = first.crash().start();
    assert_eq!(again.client().say("RLOCK.ACQUIRE hot again 60000"), Reply::Nil);
    run.wait_for("it is back", |it| it.server == "first" && it.holders.iter().any(|it| it.holder == "again"));

    run.targets.lock().unwrap().remove(0);
    let last = || run.samples().iter().rev().take(20).all(|it| it.server == "second");
    wait_until("the first is left alone", last);
    run.stop();
}
