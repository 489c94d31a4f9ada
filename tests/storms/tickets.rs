//! A hundred thousand tickets of a few sessions: served in the exact order, each with its event.

use crate::one_lock::LEASE_MS;
use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use crate::{alone, as_i64, is_ok, size};
use rlock_testing::{Client, Event, Reply, text, wait_until};
use std::collections::HashSet;
use std::time::Duration;

pub const TICKETS: usize = 100_000;

/// How long any client may have to wait for an answer: less than for blocked clients, since there is no batch to
/// answer. On a quiet machine it is some 20 ms.
pub const LONGEST_SILENCE: Duration = Duration::from_millis(200);

const SESSIONS: usize = 10;

/// How many tickets are granted before the sessions read: each session then has half of what may be unread.
const AT_ONCE: usize = SESSIONS * 500;

/// A process with sessions, all on one connection.
pub struct Process {
    pub client: Client,
    /// Each session's name, and the last of its events that was read.
    sessions: Vec<(String, i64)>,
}

impl Process {
    /// With sessions that do not end before a storm does.
    pub fn with_sessions(count: usize, scene: &Scene) -> Self {
        let mut client = scene.server.client();
        let sessions = (0..count).map(|number| {
            let name = format!("the-session-number-{number}");
            assert_eq!(client.say(&format!("RLOCK.EVENTS {name} TTL 600000")).events(), []);
            (name, 0)
        });
        let sessions = sessions.collect();
        Self { client, sessions }
    }

    pub fn session(&self, number: usize) -> &str {
        &self.sessions[number % self.sessions.len()].0
    }

    /// Starts this many waits by ticket, in turn for each session: `command` returns each wait's command up to WAIT.
    pub fn wait(&mut self, count: usize, command: impl Fn(usize) -> String) {
        for first in (0..count).step_by(10_000) {
            let numbers = first..count.min(first + 10_000);
            let commands: Vec<_> = numbers
                .map(|number| format!("{} WAIT 0 SESSION {} {number}", command(number), self.session(number)))
                .collect();
            assert!(self.client.say_all(commands).iter().all(|answer| *answer == text("WAITING")));
        }
    }

    /// The sessions' events now, one session after the other. Each call acknowledges the previous events.
    pub fn fetch(&mut self) -> Vec<Event> {
        let calls = self.sessions.iter().map(|(name, read)| format!("RLOCK.EVENTS {name} ACK {read}"));
        let replies = self.client.say_all(calls.collect::<Vec<_>>());
        let mut received = Vec::new();
        for (reply, (name, read)) in replies.iter().zip(&mut self.sessions) {
            for event in reply.events() {
                assert_eq!(event.seq, *read + 1, "{name} gets each of its events once, oldest first");
                *read = event.seq;
                received.push(event);
            }
        }
        received
    }

    /// Reads until this many tickets are granted. Returns their events in order.
    pub fn until_granted(&mut self, count: usize) -> Vec<Event> {
        let mut received = Vec::new();
        wait_until("all are notified", || {
            received.extend(self.fetch());
            received.len() >= count
        });
        assert_eq!(received.len(), count);
        assert!(received.iter().all(|event| event.outcome == "granted"));
        received
    }
}

pub fn held_by_holder(scene: &mut Scene, keys: impl Iterator<Item = String>) {
    let taken = scene.client.say_all(keys.map(|key| format!("RLOCK.ACQUIRE {key} holder {LEASE_MS}")));
    assert!(taken.iter().all(|reply| *reply == Reply::Nil));
}

fn number_of(event: &Event) -> usize {
    event.ticket.parse().unwrap()
}

#[test]
fn of_ten_sessions_for_one_lock() {
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(TICKETS));
    let mut process = Process::with_sessions(SESSIONS, &scene);
    held_by_holder(&mut scene, ["gate".to_owned()].into_iter());
    let storm = scene.storm_of(&format!("{count} tickets"), "ten sessions wait for one lock");
    process.wait(count, |number| format!("RLOCK.ACQUIRE gate h{number} {LEASE_MS} FENCED"));
    let (mut holder, mut token) = ("holder".to_owned(), 0);
    for first in (0..count).step_by(AT_ONCE) {
        let last = count.min(first + AT_ONCE);
        let before = std::mem::replace(&mut holder, format!("h{}", last - 1));
        let holders = std::iter::once(before).chain((first..last - 1).map(|number| format!("h{number}")));
        // Only the holder of the lock can release it: so each of them had it when its turn came.
        let released = scene.client.say_all(holders.map(|holder| format!("RLOCK.RELEASE gate {holder}")));
        assert!(released.iter().all(|reply| *reply == Reply::Int(1)), "none was passed over");
        let mut received = process.until_granted(last - first);
        received.sort_unstable_by_key(number_of);
        for event in &received {
            let before = std::mem::replace(&mut token, event.value.as_int());
            assert!(before < token, "the tokens are in the order of coming: {token} after {before}");
        }
    }
    storm.calm(&mut scene).report(LONGEST_SILENCE, "");
    assert_eq!((scene.client.figure("tickets"), scene.client.hash("gate")), (0, vec![(holder, "1".to_owned())]));
}

/// All locks are freed at one stroke. A session with a thousand unread events gets no more until it reads.
#[test]
fn of_ten_sessions_for_as_many_locks() {
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(TICKETS));
    let mut process = Process::with_sessions(SESSIONS, &scene);
    held_by_holder(&mut scene, (0..count).map(|number| format!("gate:{number}")));
    process.wait(count, |number| format!("RLOCK.ACQUIRE gate:{number} waiter {LEASE_MS}"));
    let storm = scene.storm_of(&format!("{count} tickets"), "ten sessions wait for as many locks");
    assert!(is_ok(&scene.client.say("FLUSHALL")));
    let received = process.until_granted(count);
    let tickets: HashSet<_> = received.iter().map(number_of).collect();
    assert_eq!(tickets.len(), count, "each is granted once");
    storm.calm(&mut scene).report(LONGEST_SILENCE, "");
    assert_eq!(scene.client.say("DBSIZE"), Reply::Int(as_i64(count)));
    assert_eq!((scene.client.figure("tickets"), scene.client.figure("waiters")), (0, 0));
}

#[test]
fn of_one_session_that_all_read() {
    let _alone = alone();
    let (mut scene, count) = (Scene::with(0, AS_IT_COMES), size(TICKETS));
    let mut process = Process::with_sessions(1, &scene);
    assert_eq!(scene.client.say(&format!("RLOCK.WACQUIRE gate holder {LEASE_MS}")), Reply::Nil);
    process.wait(count, |number| format!("RLOCK.RACQUIRE gate reader:{number} {LEASE_MS}"));
    let mut writer = scene.server.client();
    writer.send(&["RLOCK.WACQUIRE", "gate", "writer", "600000", "WAIT", "0"]);
    scene.client.until_waiting(as_i64(count) + 1);
    let storm = scene.storm_of(&format!("{count} tickets"), "a writer leaves readers of one session");
    assert_eq!(scene.client.say("RLOCK.RELEASE gate holder"), Reply::Int(1));
    let received = process.until_granted(count);
    storm.calm(&mut scene).report(LONGEST_SILENCE, "");
    assert!(received.iter().map(number_of).is_sorted(), "they are granted in the order of coming");
    assert_eq!(scene.client.say("HLEN gate"), Reply::Int(as_i64(count) + 1), "all are in, beside the mode");
    assert_eq!(scene.client.figure("waiters"), 1, "the writer waits behind them");
}
