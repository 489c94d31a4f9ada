//! One answer of ONCE for a thousand callers: it is copied into the reply of each.

use crate::one_lock::{LEASE_MS, LONGEST_SILENCE};
use crate::scene::Scene;
use crate::setting::{AS_IT_COMES, Setting};
use crate::tickets::{self, Process};
use crate::{alone, as_i64, size};
use rlock_testing::{Client, Reply, wait_until};
use std::time::{Duration, Instant};

const KIB: usize = 1024;

/// The default of `rlock.max-answer`.
const DEFAULT: usize = 64 * KIB;

/// The maximum of `rlock.max-answer`.
const MOST: usize = 8 * KIB * KIB;

/// Callers of an answer of the maximum length. More would take more memory than a small machine has.
const FEW: usize = 200;

const MANY: usize = 1_000;

/// By how much the server's memory may have grown in the end.
const GROWTH: i64 = 4 << 20;

/// On a busy machine anything can take this long.
const SHORT_SILENCE: Duration = Duration::from_millis(100);

const ROOM: Setting = Setting { options: "--maxclients 2000", ..AS_IT_COMES };

/// A server with a leader of the lock `gate`, and callers that wait for its answer.
struct Flight {
    scene: Scene,
    callers: Vec<Caller>,
    length: usize,
    memory_before: i64,
}

struct Caller {
    client: Client,
    /// As CLIENT ID reports it.
    id: i64,
}

impl Flight {
    fn with(callers: usize, length: usize) -> Self {
        let mut scene = Scene::with(0, ROOM);
        scene.client.say(&format!("CONFIG SET rlock.max-answer {MOST}"));
        assert_eq!(scene.client.say(&format!("RLOCK.ONCE gate leader {LEASE_MS}")), Reply::Nil);
        let mut flight = Self { scene, callers: Vec::new(), length, memory_before: 0 };
        // The first answer makes the server allocate what it keeps.
        flight.answer();
        flight.scene.client.say("DEL rlock_answer:{gate}");
        flight.until_connected(1);
        flight.memory_before = flight.used_memory();
        assert_eq!(flight.scene.client.say(&format!("RLOCK.ONCE gate leader {LEASE_MS}")), Reply::Nil);
        for number in 0..callers {
            let mut client = flight.scene.server.client();
            let id = client.say("CLIENT ID").as_int();
            client.send(&["RLOCK.ONCE", "gate", &format!("caller:{number}"), "600000", "WAIT", "0"]);
            flight.callers.push(Caller { client, id });
        }
        flight.scene.client.until_waiting(as_i64(callers));
        flight
    }

    fn used_memory(&mut self) -> i64 {
        self.scene.client.info("memory").number("used_memory")
    }

    /// Uses a connection of its own: the server keeps the buffer of such a command until the client disconnects.
    fn answer(&mut self) {
        let (mut leader, value) = (self.scene.server.client(), vec![b'x'; self.length]);
        let command = [&b"RLOCK.ANSWER"[..], b"gate", b"leader", &value, b"KEEP", b"600000"];
        assert_eq!(leader.run(&command), Reply::Int(1));
    }

    fn until_connected(&mut self, count: i64) {
        wait_until("the others are gone", || self.scene.client.info("clients").number("connected_clients") == count);
    }

    fn grown(&mut self) -> i64 {
        self.used_memory() - self.memory_before
    }

    /// Each caller reads its reply.
    fn all_read(&mut self) {
        for (number, caller) in self.callers.iter_mut().enumerate() {
            let reply = caller.client.receive();
            let is_it = matches!(&reply, Reply::Text(value) if value.len() == self.length);
            assert!(is_it, "caller {number} has not got the answer");
        }
    }

    /// Without callers and without the answer the server has no more memory than before.
    fn memory_returns(&mut self) {
        self.callers.clear();
        self.until_connected(1);
        self.scene.client.say("DEL rlock_answer:{gate}");
        let most = self.memory_before + GROWTH;
        wait_until("the memory is free again", || self.used_memory() <= most);
    }
}

/// Memory apart from the replies: the stored answer, and buffers of the command.
fn other_memory(length: usize) -> i64 {
    3 * as_i64(length) + GROWTH
}

fn of_clients(callers: usize, length: usize) {
    let _alone = alone();
    let mut flight = Flight::with(size(callers), length);
    let whom = format!("{} clients, {} KiB", flight.callers.len(), length / KIB);
    let (storm, began) = (flight.scene.storm_of(&whom, "an answer"), Instant::now());
    flight.answer();
    flight.scene.client.until_waiting(0);
    let (elapsed, grown) = (began.elapsed(), flight.grown());
    let seen = storm.calm(&mut flight.scene);
    // A server that copied all replies in one turn would be silent for all of this time.
    let took = seen.with_a_processor(elapsed);
    let figures = format!("{} ms for all, {} MiB of memory, ", took.as_millis(), grown >> 20);
    seen.report((took / 2).clamp(SHORT_SILENCE, LONGEST_SILENCE), &figures);
    let storm = flight.scene.storm_of(&whom, "the answer is read");
    flight.all_read();
    storm.calm(&mut flight.scene).report(LONGEST_SILENCE, "");
    let copies = as_i64(flight.callers.len() * length);
    assert!(grown <= copies + copies / 4 + other_memory(length), "one copy for each: {grown} bytes");
    flight.memory_returns();
}

#[test]
fn of_64_kib_to_a_thousand_clients() {
    of_clients(MANY, DEFAULT);
}

#[test]
fn of_8_mib_to_many_clients() {
    of_clients(FEW, MOST);
}

/// The event of a ticket has no value.
#[test]
fn to_the_tickets_of_ten_sessions() {
    let _alone = alone();
    for length in [DEFAULT, MOST] {
        let mut flight = Flight::with(0, length);
        let count = size(4 * MANY);
        let mut process = Process::with_sessions(10, &flight.scene);
        process.wait(count, |number| format!("RLOCK.ONCE gate caller:{number} {LEASE_MS}"));
        flight.memory_before = flight.used_memory();
        let storm = flight.scene.storm_of(&format!("{count} tickets, {} KiB", length / KIB), "an answer");
        flight.answer();
        flight.scene.client.until_waiting(0);
        let grown = flight.grown();
        let mut received = Vec::new();
        wait_until("all are notified", || {
            received.extend(process.fetch());
            received.len() >= count
        });
        assert!(received.iter().all(|event| event.outcome == "answered" && event.value == Reply::Nil));
        let figures = format!("{} KiB of memory, ", grown >> 10);
        storm.calm(&mut flight.scene).report(tickets::LONGEST_SILENCE, &figures);
        assert!(grown <= other_memory(length), "no copy for a ticket: {grown} bytes");
        drop(process);
        flight.memory_returns();
    }
}

/// The server kills half of the clients: with most of their replies unsent, or right behind the answer. The others hang up.
#[test]
fn to_clients_that_are_gone_before_they_have_read_it() {
    let _alone = alone();
    for is_killed_at_once in [false, true] {
        let mut flight = Flight::with(size(FEW), MOST);
        let killed: Vec<_> = flight.callers.iter().step_by(2).map(|caller| caller.id).collect();
        let whom = format!("{} clients, {} KiB", flight.callers.len(), MOST / KIB);
        let storm = flight.scene.storm_of(&whom, &format!("an answer, killed at once: {is_killed_at_once}"));
        flight.answer();
        if !is_killed_at_once {
            flight.scene.client.until_waiting(0);
        }
        let kills = killed.iter().map(|id| format!("CLIENT KILL ID {id}"));
        assert!(flight.scene.client.say_all(kills).iter().all(|reply| *reply == Reply::Int(1)));
        flight.callers.clear();
        flight.scene.client.until_waiting(0);
        storm.calm(&mut flight.scene).report(LONGEST_SILENCE, "");
        assert_eq!(flight.scene.client.figure("revocations_due"), 0);
        flight.memory_returns();
    }
}
