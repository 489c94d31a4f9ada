//! The longest turn: how long one user's command keeps all other clients waiting, in processor time of the server's main
//! thread, so that other work on the machine does not count.
//!
//! A bystander sends PING after PING, and reads the thread's processor time after each reply. Between two replies is a
//! turn of the server, or two.

use crate::batch::{Batch, Pipe};
use crate::contenders::Module;
use crate::figures::Figures;
use crate::interrupt::Guarded;
use crate::plan::Plan;
use crate::waiters::told_by_info;
use crate::{progress, servers, session};
use rlock_testing::{Client, wait_until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What is done in the turn, and its preparation: it returns what is measured.
pub struct Case {
    pub id: &'static str,
    pub name: &'static str,
    prepare: fn(&Guarded) -> Act,
}

type Act = Box<dyn FnOnce(&Guarded)>;

const fn case(id: &'static str, name: &'static str, prepare: fn(&Guarded) -> Act) -> Case {
    Case { id, name, prepare }
}

pub const CASES: [Case; 10] = [
    case("sets", "RELEASE of 64 locks, one by one, for which 16 MACQUIREs wait", sets),
    case("macquire", "MACQUIRE of 64 locks behind 20 others", newcomer),
    case("ack", "EVENTS … ACK of 1,000,000 events", ack),
    case("cancel", "CANCEL of 300,000 tickets", cancel),
    case("events", "EVENTS with 1,000 grants of 64 locks", events),
    case("break", "BREAK of 100,000 read holds", break_lock),
    case("sessions", "SESSIONS COUNT 10000 with 10,000 sessions", sessions),
    case("permits", "PACQUIRE with 90,000 ended permits", permits),
    case("pause", "the end of CLIENT PAUSE with 10,000 ended leases that are waited for", |server| pause(server, true)),
    case("pause_keys", "… with 10,000 ended keys, which are no locks", |server| pause(server, false)),
];

pub const UNIT: &str = "ms";

const LOCKS: usize = 64;

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for Case { id, name, prepare } in &CASES {
        for _ in 0..plan.storms {
            progress::step(name);
            let server = servers::start(Module::Rlock, &["--save", ""]);
            // The session is attended while its polls wait.
            let _polls = session::open(&server);
            let act = prepare(&server);
            figures.add(&format!("turn.{id}"), UNIT, longest_turn(&server, act));
        }
    }
}

fn longest_turn(server: &Guarded, act: Act) -> f64 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let bystander = scope.spawn(|| stand_by(server, &is_over));
        thread::sleep(Duration::from_millis(20));
        act(server);
        // For what the command leaves to the next turns.
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
        bystander.join().expect("a bystander that is served")
    })
}

fn stand_by(server: &Guarded, is_over: &AtomicBool) -> f64 {
    come_first();
    let mut stream = UnixStream::connect(server.socket()).expect("the server accepts connections");
    let (mut before, mut longest) = (processor_ms(server), 0.0_f64);
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(b"PING\r\n").expect("the server takes commands");
        stream.read_exact(&mut [0; b"+PONG\r\n".len()]).expect("the server answers");
        let now = processor_ms(server);
        longest = longest.max(now - before);
        before = now;
        thread::sleep(Duration::from_micros(200));
    }
    longest
}

/// A bystander that waits for a processor sees several turns as one. Without the right to this, it may.
fn come_first() {
    let thread = std::fs::read_link("/proc/thread-self").expect("a thread of Linux");
    let number = thread.file_name().expect("which has a number");
    let mut renice = Command::new("renice");
    _ = renice.args(["-n", "-20", "-p"]).arg(number).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Of the server's main thread.
fn processor_ms(server: &Guarded) -> f64 {
    let text =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/schedstat", server.id())).expect("a thread of Linux");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("its nanoseconds") / 1e6
}

fn keys(of: usize) -> Vec<String> {
    (0..LOCKS).map(|lock| format!("{of}:{lock}")).collect()
}

fn run(server: &Guarded, commands: impl IntoIterator<Item = String>) {
    let (mut pipe, mut commands) = (Pipe::to(server), commands.into_iter().peekable());
    while commands.peek().is_some() {
        let mut batch = Batch::default();
        commands.by_ref().take(1_000).for_each(|command| batch.add(&command.split(' ').collect::<Vec<_>>()));
        pipe.run(&batch);
    }
}

fn ask_for_all(locks: &[String], holder: &str, ticket: usize) -> String {
    format!("RLOCK.MACQUIRE {LOCKS} {} {holder} 9000000 WAIT 0 SESSION {} {ticket}", locks.join(" "), session::NAME)
}

fn sets(server: &Guarded) -> Act {
    let mut client = server.client();
    client.say(&format!("RLOCK.MACQUIRE {LOCKS} {} holder 9000000", keys(0).join(" ")));
    run(server, (0..16).map(|ticket| ask_for_all(&keys(0), &format!("waiter{ticket}"), ticket)));
    Box::new(|server| run(server, keys(0).into_iter().map(|key| format!("RLOCK.RELEASE {key} holder"))))
}

fn newcomer(server: &Guarded) -> Act {
    let mut others = keys(0);
    others[LOCKS - 1] = "held".to_owned();
    server.client().say("RLOCK.ACQUIRE held holder 9000000");
    run(server, (0..20).map(|ticket| ask_for_all(&others, &format!("waiter{ticket}"), ticket)));
    Box::new(|server| drop(server.client().say(&ask_for_all(&keys(0), "newcomer", 99))))
}

/// So many tickets wait for one lock.
fn tickets(server: &Guarded, count: usize, wait_ms: usize) {
    server.client().say("RLOCK.ACQUIRE k holder 9000000");
    let ask = |ticket| format!("RLOCK.ACQUIRE k waiter 1000 WAIT {wait_ms} SESSION {} {ticket}", session::NAME);
    run(server, (0..count).map(ask));
}

fn ack(server: &Guarded) -> Act {
    const EVENTS: usize = 1_000_000;
    let mut client = server.client();
    client.say("CONFIG SET rlock.max-tickets 2000000");
    tickets(server, EVENTS, 1);
    wait_until("all are over", || told_by_info(&mut client, "rlock", "rlock_events_unacknowledged") == EVENTS as f64);
    let poll = format!("RLOCK.EVENTS {}", session::NAME);
    let mut last = 0;
    while let Some(event) = client.say(&poll).as_list().last() {
        last = event.as_list()[0].as_int();
    }
    Box::new(move |_| drop(client.say(&format!("{poll} ACK {last}"))))
}

fn cancel(server: &Guarded) -> Act {
    const TICKETS: usize = 300_000;
    tickets(server, TICKETS, 0);
    let names: Vec<_> = (0..TICKETS).map(|ticket| ticket.to_string()).collect();
    let cancel = format!("RLOCK.CANCEL {} {}", session::NAME, names.join(" "));
    Box::new(move |server| drop(server.client().say(&cancel)))
}

fn events(server: &Guarded) -> Act {
    const GRANTS: usize = 1_000;
    for set in 0..GRANTS {
        let keys = keys(set);
        run(server, [format!("RLOCK.ACQUIRE {} holder 9000000", keys[0]), ask_for_all(&keys, "waiter", set)]);
    }
    let mut client = server.client();
    let poll = format!("RLOCK.EVENTS {}", session::NAME);
    client.say(&poll);
    run(server, (0..GRANTS).map(|set| format!("RLOCK.RELEASE {set}:0 holder")));
    Box::new(move |_| drop(client.say(&poll)))
}

fn break_lock(server: &Guarded) -> Act {
    run(server, (0..100_000).map(|reader| format!("RLOCK.RACQUIRE k reader{reader} 9000000")));
    Box::new(|server| drop(server.client().say("RLOCK.BREAK k")))
}

fn sessions(server: &Guarded) -> Act {
    let mut clients: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for (number, client) in (1..10_000).zip((0..100).cycle()) {
        clients[client].say(&format!("RLOCK.EVENTS session-{number:016} TTL 600000"));
    }
    Box::new(move |server| {
        server.client().say("RLOCK.SESSIONS COUNT 10000");
        drop(clients);
    })
}

fn permits(server: &Guarded) -> Act {
    const LEASE_MS: u64 = 3_000;
    let ask = |holder| format!("RLOCK.PACQUIRE k holder{holder} {LEASE_MS} LIMIT 100000");
    run(server, (0..90_000).map(ask).chain(["RLOCK.PACQUIRE k last 50000 LIMIT 100000".to_owned()]));
    thread::sleep(Duration::from_millis(LEASE_MS));
    Box::new(|server| drop(server.client().say("RLOCK.PACQUIRE k newcomer 9000 LIMIT 100000")))
}

fn pause(server: &Guarded, with_locks: bool) -> Act {
    const KEYS: usize = 10_000;
    let begin =
        |key| if with_locks { format!("RLOCK.ACQUIRE {key} holder 2000") } else { format!("SET {key} 1 PX 2000") };
    run(server, (0..KEYS).map(begin));
    if with_locks {
        let ask = |key| format!("RLOCK.ACQUIRE {key} waiter 9000000 WAIT 0 SESSION {} {key}", session::NAME);
        run(server, (0..KEYS).map(ask));
    }
    server.client().say("CLIENT PAUSE 4000 WRITE");
    thread::sleep(Duration::from_millis(3_000));
    Box::new(|_| thread::sleep(Duration::from_millis(1_500)))
}
