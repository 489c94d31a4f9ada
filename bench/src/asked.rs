//! What those wait who watch the server: `INFO rlock` and `RLOCK.QUEUES`, however many wait for locks.
//!
//! A million clients that wait would need tens of gigabytes, so it is in three parts: what the module looks up for
//! them, with a million locks (see `table.rs`); and the commands as a server counts them, with as many clients as one
//! can have, and with a million tickets.

use crate::figures::Figures;
use crate::plan::Plan;
use crate::progress;
use crate::table::{self, Shape};
use crate::tickets::{For, Tickets};
use crate::waiters::Waiters;
use rlock_testing::{Client, Server, list, text};

pub const UNIT: &str = "µs";

pub const LOCKS: [usize; 3] = [1, 1_000, 1_000_000];
pub const CLIENTS: [usize; 3] = [1, 1_000, 10_000];

/// Each for a lock of its own.
pub fn tickets(plan: &Plan) -> [usize; 3] {
    [1, 1_000, plan.many_tickets]
}

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for locks in LOCKS {
        progress::step(&format!("{locks} locks in the module"));
        for (id, samples) in table::in_its_own_process(Shape::LockEach, locks) {
            if id != table::BYTES {
                samples.into_iter().for_each(|sample| figures.add(&format!("table.{id}.{locks}"), UNIT, sample));
            }
        }
    }
    for clients in CLIENTS {
        progress::step(&format!("{clients} clients that wait"));
        match Waiters::connect(clients) {
            Ok(mut waiters) => {
                waiters.wait();
                ask(&waiters.server, "server", clients, figures);
            }
            Err(reason) => figures.left_out.push(format!("INFO and QUEUES with {clients} who wait: {reason}")),
        }
    }
    let mut waiting = Tickets::prepare(For::LockEach, plan.many_tickets);
    for tickets in tickets(plan) {
        progress::step(&format!("{tickets} tickets"));
        waiting.wait(tickets);
        ask(&waiting.server, "tickets", tickets, figures);
    }
}

/// What is asked: INFO, QUEUES, and QUEUES by a user who may not read the keys.
pub const QUESTIONS: [&str; 3] = ["info", "queues", "blind"];

const ROUNDS: usize = 5;

/// How often each command is asked in a round.
const CALLS: usize = 40;

/// What a server counts for these commands itself.
fn ask(server: &Server, place: &str, count: usize, figures: &mut Figures) {
    let [mut client, mut prober, mut onlooker, mut blind] = [(); 4].map(|()| server.client());
    for command in ["ACL SETUSER blind on nopass +@all ~nothing:*", "AUTH blind any"] {
        assert_eq!(blind.say(command), text("OK"));
    }
    assert_eq!(blind.say("RLOCK.QUEUES"), list([]), "who may read no lock is shown none");
    for _ in 0..ROUNDS {
        for (id, counted_as, command, asker) in [
            ("info", "info", "INFO rlock", &mut prober),
            ("queues", "rlock.queues", "RLOCK.QUEUES", &mut onlooker),
            ("blind", "rlock.queues", "RLOCK.QUEUES", &mut blind),
        ] {
            client.say("CONFIG RESETSTAT");
            (0..CALLS).for_each(|_| drop(asker.say(command)));
            let time = time_of_a_call(&mut client, counted_as);
            figures.add(&format!("{place}.{id}.{count}"), UNIT, time);
        }
    }
}

/// More exactly than `usec_per_call` says it.
fn time_of_a_call(client: &mut Client, command: &str) -> f64 {
    let info = client.say("INFO commandstats");
    let name = format!("cmdstat_{command}:");
    let line = info.as_text().lines().find_map(|line| line.strip_prefix(&name)).expect("a command that was counted");
    let number = |name: &str| -> f64 {
        let found = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok()).expect("a number")
    };
    number("usec") / number("calls")
}
