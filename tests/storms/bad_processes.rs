//! Processes that misuse their sessions: no other client waits for them, and their memory is bounded.

use crate::one_lock::LEASE_MS;
use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use crate::tickets::{LONGEST_SILENCE, Process, held_by_holder};
use crate::{alone, as_i64, size};
use rlock_testing::{PATIENCE, Reply, Session, start_waiting, text, wait_until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How much the server's memory may grow for each ticket, with its event and its lock.
const BYTES_PER_TICKET: i64 = 1_000;

/// How much the server's memory may grow for each session.
const BYTES_PER_SESSION: i64 = 2_000;

fn used_memory(scene: &mut Scene) -> i64 {
    scene.client.info("memory").number("used_memory")
}

fn is_full(answer: &Reply) -> bool {
    matches!(answer, Reply::Error(line) if line.starts_with("QUEUEFULL "))
}

/// Another session's ticket is served without delay.
fn others_are_served(scene: &mut Scene, session: &mut Session) {
    assert_eq!(scene.client.say(&format!("RLOCK.ACQUIRE other holder {LEASE_MS}")), Reply::Nil);
    session.wait_for(&format!("RLOCK.ACQUIRE other ann {LEASE_MS} WAIT 0"), "1");
    assert_eq!(scene.client.say("RLOCK.RELEASE other holder"), Reply::Int(1));
    let received = session.until_fetched(1);
    assert_eq!((received[0].ticket.as_str(), received[0].outcome.as_str()), ("1", "granted"));
    assert_eq!(scene.client.say("RLOCK.RELEASE other ann"), Reply::Int(1));
}

/// The process keeps requesting locks, and never reads the outcomes.
#[test]
fn one_that_never_reads_its_events() {
    let _alone = alone();
    let (mut scene, most) = (Scene::with(0, AS_IT_COMES), size(40_000));
    let mut ann = Session::open(&scene.server, "ann");
    let mut process = Process::with_sessions(1, &scene);
    scene.client.say(&format!("CONFIG SET rlock.max-tickets {most}"));
    held_by_holder(&mut scene, ["gate".to_owned()].into_iter());
    let (name, before) = (process.session(0).to_owned(), used_memory(&mut scene));
    let storm = scene.storm_of(&format!("{most} events"), "a process never reads");
    let mut asked = 0;
    loop {
        let commands = (asked..asked + 1_000)
            .map(|number| format!("RLOCK.ACQUIRE gate bad:{number} {LEASE_MS} WAIT 1 SESSION {name} {number}"));
        let answers = process.client.say_all(commands.collect::<Vec<_>>());
        if answers.iter().any(is_full) {
            break;
        }
        asked += 1_000;
        assert!(asked <= most, "there is a limit");
        if asked == most / 2 {
            others_are_served(&mut scene, &mut ann);
        }
    }
    wait_until("all times are up", || scene.client.figure("waiters") == 0);
    let grown = used_memory(&mut scene) - before;
    let figures = format!("{} KB for {asked} unread events, ", grown / 1_000);
    assert!(grown < BYTES_PER_TICKET * as_i64(most), "{figures}");
    // No more tickets are accepted. Blocked clients wait as they would without sessions.
    let mut blocked = start_waiting(&scene.server, &format!("RLOCK.ACQUIRE gate bob {LEASE_MS} WAIT 0"));
    scene.client.say("RLOCK.RELEASE gate holder");
    assert_eq!(blocked.receive(), Reply::Nil);
    // When the session's time is over, all is as before.
    process.client.say(&format!("RLOCK.EVENTS {name} TTL 1000"));
    wait_until("it has ended", || scene.client.figure("events_unacknowledged") == 0);
    others_are_served(&mut scene, &mut ann);
    storm.calm(&mut scene).report(LONGEST_SILENCE, &figures);
}

/// The process reads its events so slowly that the server could think that it does not read.
#[test]
fn one_that_reads_a_byte_now_and_then() {
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(40_000));
    let mut ann = Session::open(&scene.server, "ann");
    let mut process = Process::with_sessions(1, &scene);
    held_by_holder(&mut scene, (0..count).map(|number| format!("gate:{number}")));
    process.wait(count, |number| format!("RLOCK.ACQUIRE gate:{number} bad {LEASE_MS}"));
    let before = used_memory(&mut scene);
    let storm = scene.storm_of(&format!("{count} tickets"), "a process reads a byte now and then");
    let mut slow = UnixStream::connect(scene.server.socket()).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    // A hundred calls, and none acknowledges an event.
    let call = format!("RLOCK.EVENTS {} TTL 3000 WAIT 0\r\n", process.session(0));
    slow.write_all(call.repeat(100).as_bytes()).unwrap();
    let mut blocked: Vec<_> = (0..20)
        .map(|number| {
            let key = count - 1 - number;
            start_waiting(&scene.server, &format!("RLOCK.ACQUIRE gate:{key} good {LEASE_MS} WAIT 0"))
        })
        .collect();
    assert_eq!(scene.client.say("FLUSHALL").words(), ["OK"]);
    // After a thousand grants the session counts as one that does not read: the clients behind it are served.
    for client in &mut blocked {
        assert_eq!(client.receive(), Reply::Nil);
    }
    assert_eq!(scene.client.figure("sessions"), 2, "and not because its time is over");
    let unread = scene.client.figure("events_unacknowledged");
    assert!(unread <= 1_001);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(slow.read(&mut [0]).unwrap(), 1);
        others_are_served(&mut scene, &mut ann);
        let grown = used_memory(&mut scene) - before;
        assert!(grown < BYTES_PER_TICKET * as_i64(count), "{grown} bytes more");
    }
    // The session ends in time, however many calls its process has sent.
    drop(slow);
    wait_until("its time is over", || scene.client.figure("sessions") == 1);
    scene.client.until_waiting(0);
    storm.calm(&mut scene).report(LONGEST_SILENCE, "");
    assert_eq!(scene.client.say("DBSIZE"), Reply::Int(20 + unread), "what it was granted stays its own");
}

#[test]
fn one_that_opens_sessions_in_a_loop() {
    let _alone = alone();
    let (mut scene, most) = (Scene::with(0, AS_IT_COMES), size(10_000));
    let mut ann = Session::open(&scene.server, "ann");
    scene.client.say(&format!("CONFIG SET rlock.max-sessions {most}"));
    let before = used_memory(&mut scene);
    let storm = scene.storm_of(&format!("{most} sessions"), "a process opens sessions in a loop");
    let mut bad = scene.server.client();
    let mut opened = 1;
    for round in 0.. {
        let calls = (0..1_000).map(|number| format!("RLOCK.EVENTS a-session-in-a-loop-{round}-{number} TTL 2000"));
        let answers = bad.say_all(calls.collect::<Vec<_>>());
        let refused = answers.iter().filter(|answer| is_full(answer));
        opened += 1_000 - refused.count();
        // Sessions that end make room for more, so the loop stops after three times the maximum.
        if round * 1_000 >= 3 * most {
            break;
        }
        others_are_served(&mut scene, &mut ann);
        let open = scene.client.figure("sessions");
        assert!(open <= as_i64(most), "{open} sessions");
        let grown = used_memory(&mut scene) - before;
        assert!(grown < BYTES_PER_SESSION * as_i64(most), "{grown} bytes more");
    }
    assert!(opened >= most - most / 10, "all that one user may have were opened");
    wait_until("they have ended", || scene.client.figure("sessions") == 1);
    others_are_served(&mut scene, &mut ann);
    storm.calm(&mut scene).report(LONGEST_SILENCE, &format!("{opened} opened, "));
}

/// The process acknowledges nothing, and cancels all tickets except the first and the last. Cancelled ones are freed at
/// once and no longer count: the gaps that stay are those of a few events.
#[test]
fn one_that_cancels_what_it_does_not_acknowledge() {
    const AT_ONCE: usize = 500;
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(40_000));
    let mut ann = Session::open(&scene.server, "ann");
    let mut process = Process::with_sessions(1, &scene);
    scene.client.say(&format!("CONFIG SET rlock.max-tickets {}", 4 * AT_ONCE));
    held_by_holder(&mut scene, ["gate".to_owned()].into_iter());
    let (name, before) = (process.session(0).to_owned(), used_memory(&mut scene));
    let storm = scene.storm_of(&format!("{count} tickets"), "a process takes back and does not acknowledge");
    let ask = |ticket: &str| format!("RLOCK.ACQUIRE gate bad:{ticket} {LEASE_MS} WAIT 1 SESSION {name} {ticket}");
    assert_eq!(process.client.say(&ask("first")), text("WAITING"));
    let mut kept = None;
    for asked in (0..count).step_by(AT_ONCE) {
        let mut tickets: Vec<_> = (asked..asked + AT_ONCE).map(|number| number.to_string()).collect();
        let answers = process.client.say_all(tickets.iter().map(|ticket| ask(ticket)));
        scene.client.until_waiting(0);
        assert!(!answers.iter().any(is_full), "what was taken back counts: {asked} were asked for");
        let last = std::mem::replace(&mut kept, tickets.pop());
        tickets.extend(last);
        let cancel = format!("RLOCK.CANCEL {name} {}", tickets.join(" "));
        assert_eq!(scene.client.say(&cancel), Reply::List(vec![Reply::Int(1); tickets.len()]));
    }
    let grown = used_memory(&mut scene) - before;
    let figures = format!("{} KB for {count} that were taken back, ", grown / 1_000);
    assert!(grown < BYTES_PER_TICKET * as_i64(4 * AT_ONCE), "{figures}");
    // With the first acknowledged nothing is left of the others.
    process.client.say(&format!("RLOCK.EVENTS {name}"));
    process.client.say(&format!("RLOCK.EVENTS {name} ACK {}", count + 1));
    others_are_served(&mut scene, &mut ann);
    storm.calm(&mut scene).report(LONGEST_SILENCE, &figures);
}
