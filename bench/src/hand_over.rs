//! A lock goes from one client to the next: how often by the clock, how fairly, and what it costs the server.

use crate::Part;
use crate::by_clock::{self, Scene, Way, clients, words};
use crate::circle::Circle;
use crate::contenders::{LONG_LEASE, channel};
use crate::counted::Scope;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::{Row, grouped};
use crate::servers::Module;
use crate::session;
use redis::Script;
use rlock_testing::{Client, scripts};

pub const PART: Part = Part {
    name: "hand-over",
    how: "Many clients want one lock, and each releases it at once and asks again. *pub/sub*: Redisson's scripts; a \
              release is published, and all waiters try again. Each client stays subscribed, which spares it what \
              Redisson does on each wait. *BLPOP*: a token in a list, which is not a lock: it is gone if its holder \
              dies. *Unfairness*: the most grants that one client got minus the fewest.",
    measure,
    rows,
};

pub const WAITERS: [usize; 3] = [8, 64, 512];

pub const WAYS: [Way; 3] = [
    Way {
        id: "rlock",
        module: Module::Rlock,
        prepare: |_, _| {},
        first: &["first"],
        commands: |lock, holder| {
            let ask = words(["RLOCK.ACQUIRE", lock, holder, LONG_LEASE, "WAIT", "0"]);
            [ask, words(["RLOCK.RELEASE", lock, holder])]
        },
        grant: (1, "$-1"),
        channel: None,
        begin: clients,
    },
    Way {
        id: "pubsub",
        module: Module::None,
        prepare: |client, _| load(client, [scripts::ACQUIRE, scripts::RELEASE]),
        first: &["first"],
        commands: |lock, holder| {
            let [acquire, release] =
                [scripts::ACQUIRE, scripts::RELEASE].map(|it| Script::new(it).get_hash().to_owned());
            let ask = words(["EVALSHA", &acquire, "1", lock, LONG_LEASE, holder]);
            [ask, words(["EVALSHA", &release, "2", lock, &channel(lock), "0", LONG_LEASE, holder])]
        },
        // If refused, the reply is the time left of the lease, which is a number.
        grant: (1, "$-1"),
        channel: Some(channel),
        begin: clients,
    },
    Way {
        id: "token",
        module: Module::None,
        prepare: |client, lock| drop(client.run(&["LPUSH", lock, "token"])),
        first: &["first"],
        commands: tokens,
        grant: TOKEN,
        channel: None,
        begin: clients,
    },
];

/// The reply to BLPOP.
pub const TOKEN: (usize, &str) = (5, "token");

pub fn tokens(list: &str, _: &str) -> [Vec<String>; 2] {
    [words(["BLPOP", list, "0"]), words(["LPUSH", list, "token"])]
}

pub fn load(client: &mut Client, scripts: [&str; 2]) {
    scripts.into_iter().for_each(|script| drop(client.run(&["SCRIPT", "LOAD", script])));
}

const QUEUE: Circle = Circle { module: Module::Rlock, scope: Scope::Everything, before: "PING", commands: queue };
const QUEUE_IN_MODULE: Circle = Circle { scope: Scope::Module, ..QUEUE };
const TOKENS: Circle = Circle {
    module: Module::None,
    scope: Scope::Everything,
    before: "LPUSH lock token",
    commands: |_| vec![words(["LPUSH", "lock", "token"]), words(["BLPOP", "lock", "0"])],
};

fn queue(client: usize) -> Vec<Vec<String>> {
    let holder = session::holder(client);
    vec![words(["RLOCK.RELEASE", "lock", &holder]), words(["RLOCK.ACQUIRE", "lock", &holder, LONG_LEASE, "WAIT", "0"])]
}

fn measure(plan: &Plan, figures: &mut Figures) {
    for waiters in WAITERS {
        by_clock::measure(plan, figures, &format!("hand_over.{waiters}"), Scene { locks: 1, waiters }, &WAYS);
    }
    QUEUE.measure(plan, figures, "one_hand_over.rlock", 64);
    TOKENS.measure(plan, figures, "one_hand_over.token", 64);
    for (id, waiters) in [("few", 1), ("many", plan.many_waiters)] {
        QUEUE_IN_MODULE.measure(plan, figures, &format!("one_hand_over.{id}"), waiters);
    }
}

const HAND_OVER: &str = "**A hand-over** is two commands, one that releases and one that waits, and both ask who \
    holds the lock. In between the module changes the hash, sets the lease and notifies keyspace listeners; a token \
    in a list needs none of that. And blocking a client costs a module more than it costs BLPOP: the server copies \
    the reply, takes a mutex, and wakes itself through a pipe.";

fn rows(plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    for (waiters, bar) in WAITERS.into_iter().zip([1.5, 12.0, 100.0]) {
        let id = |way: &str| format!("hand_over.{waiters}.{way}");
        let what = format!("one lock, {waiters} waiters");
        rows.push(Row::compare(&what, &id("rlock"), "pub/sub", &id("pubsub")).bar(bar).because(HAND_OVER));
        rows.push(Row::compare(&what, &id("rlock"), "BLPOP", &id("token")));
    }
    rows.push(Row::at_most("unfairness with 512 waiters", "hand_over.512.unfairness.rlock", 1.0));
    rows.push(
        Row::compare("one hand-over, 64 waiters", "one_hand_over.rlock", "BLPOP", "one_hand_over.token")
            .bar(0.72)
            .because(HAND_OVER),
    );
    let what = format!("… inside the module, {} waiters", grouped(plan.many_waiters as f64));
    rows.push(Row::compare(&what, "one_hand_over.many", "1 waiter", "one_hand_over.few").bar(0.87));
    rows
}
