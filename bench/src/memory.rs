//! The server's memory for a held lock, and for waiters with everything they need, especially connections.

use crate::Part;
use crate::batch::{Batch, Pipe};
use crate::contenders::{HOLDER, LONG_LEASE, channel};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::{Row, grouped};
use crate::servers::{self, Module, used_memory};
use crate::session;
use rlock_testing::{Batch as Clients, Client, Reply, Server, make_room_for, scripts, wait_until};
use std::thread;
use std::time::Duration;

pub const PART: Part = Part {
    name: "memory",
    how: "A held lock: MEMORY USAGE over all its keys. A waiter: what `used_memory` grows by, connections included, \
              the locks themselves not; each wait has a deadline. A blocked client and a subscriber have a \
              connection each; tickets, and subscriptions, share one. For pub/sub this is the server's part only: \
              each process also keeps its own waiters.",
    measure,
    rows,
};

const UNIT: &str = "bytes";

const DEADLINE_MS: &str = "3600000";

const KINDS: [&str; 3] = ["plain", "read", "write"];

fn measure(plan: &Plan, figures: &mut Figures) {
    let server = servers::start(Module::Rlock);
    let mut client = server.client();
    let commands = ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"];
    let scripts = [scripts::ACQUIRE, scripts::READ_ACQUIRE, scripts::WRITE_ACQUIRE];
    for ((kind, command), script) in KINDS.into_iter().zip(commands).zip(scripts) {
        assert_eq!(client.run(&[command, "orders:42", HOLDER, LONG_LEASE]), Reply::Nil);
        figures.add(&format!("held.{kind}.rlock"), UNIT, all_keys(&mut client));
        client.say("FLUSHALL");
        acquire_by(&mut client, kind, script);
        figures.add(&format!("held.{kind}.scripts"), UNIT, all_keys(&mut client));
        client.say("FLUSHALL");
    }
    let (waiters, tickets) = (plan.many_waiters, plan.many_tickets);
    figures.add("waiter.one_lock", UNIT, of_tickets(tickets, false));
    figures.add("waiter.lock_each", UNIT, of_tickets(tickets, true));
    figures.add("waiter.subscription", UNIT, of_subscriptions(tickets));
    make_room_for(waiters).unwrap_or_else(|reason| panic!("{reason}"));
    figures.add("waiter.client", UNIT, of_clients(waiters));
    figures.add("waiter.subscriber", UNIT, of_subscribers(waiters));
}

const READ_HOLD: &str = "**The key of a read hold** has a string `1` of its own, of 16 bytes. Commands and scripts \
    use an integer that the server shares; modules cannot.";

fn rows(plan: &Plan) -> Vec<Row> {
    let held = |kind| {
        let [ours, other] = ["rlock", "scripts"].map(|id| format!("held.{kind}.{id}"));
        Row::compare(&format!("a held lock, {kind}"), &ours, "Redisson's scripts", &other).bar(1.0).because(READ_HOLD)
    };
    let [waiters, tickets] = [plan.many_waiters, plan.many_tickets].map(|count| grouped(count as f64));
    let [each, shared] = ["pub/sub, a subscriber", "pub/sub, a subscription"];
    let mut rows: Vec<_> = KINDS.into_iter().map(held).collect();
    rows.extend([
        Row::compare(&format!("a blocked client, one of {waiters}"), "waiter.client", each, "waiter.subscriber"),
        Row::compare("a ticket for a lock of its own", "waiter.lock_each", shared, "waiter.subscription"),
        Row::at_most(&format!("… with {tickets} tickets"), "waiter.lock_each", 450.0),
        Row::at_most(&format!("one of {tickets} tickets for one lock"), "waiter.one_lock", 300.0),
    ]);
    rows
}

fn acquire_by(client: &mut Client, kind: &str, script: &str) {
    let write_side = format!("{HOLDER}:write");
    let holds = format!("{{orders:42}}:{HOLDER}:rwlock_timeout");
    let holder = if kind == "write" { &write_side } else { HOLDER };
    let words = ["EVAL", script, "2", "orders:42", &holds, LONG_LEASE, holder, &write_side];
    assert_eq!(client.run(&words), Reply::Nil);
}

/// The memory of all keys of the server, which belong to one lock.
fn all_keys(client: &mut Client) -> f64 {
    let keys = client.say("KEYS *");
    let of = |key: &str| client.run(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).as_int() as f64;
    keys.words().into_iter().map(of).sum()
}

/// The memory per ticket. All tickets are of one session, and are for one lock, or each for a lock of its own.
fn of_tickets(count: usize, has_lock_each: bool) -> f64 {
    let server = servers::start(Module::Rlock);
    let mut client = server.client();
    // By default one user may have nine tenths of a million tickets.
    client.say(&format!("CONFIG SET rlock.max-tickets-per-user {count}"));
    let lock = |number: usize| format!("orders:{}", if has_lock_each { number } else { 0 });
    in_batches(&server, if has_lock_each { count } else { 1 }, |batch, number| {
        batch.add(&["RLOCK.ACQUIRE", &lock(number), "holder", LONG_LEASE]);
    });
    let before = used_memory(&mut client);
    let _polls = session::open(&server);
    wait_until("the session is open", || client.figure("sessions") == 1);
    in_batches(&server, count, |batch, number| {
        let (holder, ticket) = (session::holder(number), number.to_string());
        batch.add(&session::ask(&lock(number), &holder, DEADLINE_MS, &ticket));
    });
    assert_eq!(client.figure("tickets"), i64::try_from(count).expect("a count"));
    (used_memory(&mut client) - before) / count as f64
}

/// Sends commands on a connection that is closed afterwards, so that the server frees everything that it keeps for it.
fn in_batches(server: &Server, count: usize, mut add: impl FnMut(&mut Batch, usize)) {
    let mut watch = server.client();
    let mut connected = || watch.info("clients").number("connected_clients");
    let before = connected();
    let mut pipe = Pipe::to(server);
    for first in (0..count).step_by(1_000) {
        let mut batch = Batch::default();
        (first..count.min(first + 1_000)).for_each(|number| add(&mut batch, number));
        pipe.run(&batch);
    }
    drop(pipe);
    wait_until("it is closed", || connected() == before);
}

/// One process that waits for the messages of many locks, on one connection.
fn of_subscriptions(count: usize) -> f64 {
    // Few enough for the command and its reply to fit in the buffer that each client has.
    const AT_ONCE: usize = 100;
    // Lines of the reply for each channel.
    const LINES: usize = 6;
    let server = servers::start(Module::None);
    let mut client = server.client();
    let before = used_memory(&mut client);
    let mut pipe = Pipe::to(&server);
    for first in (0..count).step_by(AT_ONCE) {
        let channels: Vec<_> = (first..first + AT_ONCE).map(|lock| channel(&format!("orders:{lock}"))).collect();
        let words: Vec<_> = ["SUBSCRIBE"].into_iter().chain(channels.iter().map(String::as_str)).collect();
        let mut batch = Batch::default();
        batch.add(&words);
        batch.commands = AT_ONCE * LINES;
        pipe.run(&batch);
    }
    (used_memory(&mut client) - before) / count as f64
}

/// Blocked clients that wait for one lock.
fn of_clients(count: usize) -> f64 {
    let server = servers::start(Module::Rlock);
    let mut client = server.client();
    assert_eq!(client.say(&format!("RLOCK.ACQUIRE orders:42 holder {LONG_LEASE}")), Reply::Nil);
    of_connections(&server, count, |batch| {
        for number in 0..count {
            let holder = session::holder(number);
            batch.say(number, &format!("RLOCK.ACQUIRE orders:42 {holder} {LONG_LEASE} WAIT {DEADLINE_MS}"));
        }
        client.until_waiting(i64::try_from(count).expect("a count"));
    })
}

/// Processes that wait for the messages of one lock.
fn of_subscribers(count: usize) -> f64 {
    of_connections(&servers::start(Module::None), count, |batch| {
        (0..count).for_each(|number| batch.say(number, &format!("SUBSCRIBE {}", channel("orders:42"))));
        assert_eq!(batch.collect(count), count, "all have subscribed");
    })
}

fn of_connections(server: &Server, count: usize, begin: impl FnOnce(&mut Clients)) -> f64 {
    let mut client = server.client();
    let before = used_memory(&mut client);
    let mut batch = Clients::connect(server, count);
    begin(&mut batch);
    // A new connection has a buffer that the server takes back after a while, and nothing shows when it has.
    thread::sleep(Duration::from_secs(8));
    (used_memory(&mut client) - before) / count as f64
}
