//! Permits: one of four is acquired and released, and four of them change hands.

use crate::Part;
use crate::batch::Batch;
use crate::by_clock::{self, Scene, Way, clients, words};
use crate::contenders::{Contender, HOLDER, LEASE, LONG_LEASE, Lab, SCRIPTS, by_hash, contender, nothing, rows};
use crate::figures::Figures;
use crate::hand_over::{TOKEN, load, tokens};
use crate::plan::Plan;
use crate::row::Row;
use crate::servers::Module;
use redis::Script;
use rlock_testing::scripts;

pub const PART: Part = Part {
    name: "permits",
    how: "At most 4 clients have a permit. The first of 4: all are free. The last: other holders have three. By the \
              clock: as for hand-over, with 4 permits.",
    measure,
    rows: all_rows,
};

const LIMIT: &str = "4";

/// The names of other holders, as long as Redisson's names of permits.
const OTHERS: [&str; 4] = ["0000000000000001", "0000000000000002", "0000000000000003", "0000000000000004"];

/// A time that Redisson's clients send, and two ends of permits after it.
const TIME: &str = "1800000000000";
const END: &str = "1800000030000";
const LATER: &str = "1800006000000";

const FIRST: [Contender; 3] = [
    contender("rlock", "RLOCK.PACQUIRE", Module::Rlock, nothing, permit),
    contender("plain", "a plain lock", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.ACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
    }),
    contender(
        "scripts",
        SCRIPTS,
        Module::None,
        |batch| batch.add(&["SET", "semaphore", LIMIT]),
        |batch, _| permit_by_script(batch, "semaphore"),
    ),
];

const LAST: [Contender; 2] = [
    contender(
        "rlock",
        "RLOCK.PACQUIRE",
        Module::Rlock,
        |batch| {
            for other in &OTHERS[1..] {
                batch.add(&["RLOCK.PACQUIRE", "permits", other, LONG_LEASE, "LIMIT", LIMIT]);
            }
        },
        |batch, _| permit(batch, "permits"),
    ),
    contender(
        "scripts",
        SCRIPTS,
        Module::None,
        |batch| {
            batch.add(&["SET", "busy semaphore", "1"]);
            for other in &OTHERS[1..] {
                batch.add(&["ZADD", &ends_of("busy semaphore"), LATER, other]);
            }
        },
        |batch, _| permit_by_script(batch, "busy semaphore"),
    ),
];

fn permit(batch: &mut Batch, lock: &str) {
    batch.add(&["RLOCK.PACQUIRE", lock, HOLDER, LEASE, "LIMIT", LIMIT]);
    batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
}

fn permit_by_script(batch: &mut Batch, semaphore: &str) {
    let (permit, ends, channel) = ("0123456789abcdef", ends_of(semaphore), channel(semaphore));
    by_hash(batch, scripts::PERMIT_ACQUIRE, &[semaphore, &ends, &channel], &[END, TIME, permit]);
    // The reply is a string, in two lines.
    batch.commands += 1;
    by_hash(batch, scripts::PERMIT_RELEASE, &[semaphore, &channel, &ends], &[permit, TIME]);
}

fn ends_of(semaphore: &str) -> String {
    format!("{{{semaphore}}}:timeout")
}

fn channel(semaphore: &str) -> String {
    format!("redisson_sc:{{{semaphore}}}")
}

const WAYS: [Way; 3] = [
    Way {
        id: "rlock",
        module: Module::Rlock,
        prepare: |_, _| {},
        first: &OTHERS,
        commands: |lock, holder| {
            let ask = words(["RLOCK.PACQUIRE", lock, holder, LONG_LEASE, "LIMIT", LIMIT, "WAIT", "0"]);
            [ask, words(["RLOCK.RELEASE", lock, holder])]
        },
        grant: (1, "$-1"),
        channel: None,
        begin: clients,
    },
    Way {
        id: "pubsub",
        module: Module::None,
        prepare: |client, semaphore| {
            load(client, [scripts::PERMIT_ACQUIRE, scripts::PERMIT_RELEASE]);
            client.run(&["SET", semaphore, LIMIT]);
        },
        first: &OTHERS,
        commands: |semaphore, permit| {
            let hash = |script| Script::new(script).get_hash().to_owned();
            let [acquire, release] = [scripts::PERMIT_ACQUIRE, scripts::PERMIT_RELEASE].map(hash);
            let (ends, channel) = (ends_of(semaphore), channel(semaphore));
            let ask = words(["EVALSHA", &acquire, "3", semaphore, &ends, &channel, END, TIME, permit]);
            [ask, words(["EVALSHA", &release, "3", semaphore, &channel, &ends, permit, TIME])]
        },
        // If refused, the reply is the time until the first permit ends.
        grant: (2, "OK"),
        channel: Some(channel),
        begin: clients,
    },
    Way {
        id: "token",
        module: Module::None,
        prepare: |client, list| drop(client.run(&["LPUSH", list, "token", "token", "token", "token"])),
        first: &OTHERS,
        commands: tokens,
        grant: TOKEN,
        channel: None,
        begin: clients,
    },
];

const SCENE: Scene = Scene { locks: 1, waiters: 100 };

fn measure(plan: &Plan, figures: &mut Figures) {
    by_clock::measure(plan, figures, "permits", SCENE, &WAYS);
    let mut lab = Lab::start(&[]);
    lab.measure(plan, figures, "first_permit", &FIRST);
    lab.measure(plan, figures, "last_permit", &LAST);
}

fn all_rows(_: &Plan) -> Vec<Row> {
    let mut all = rows("the first of 4 is acquired and released", "first_permit", &FIRST, &[("scripts", 3.0)]);
    all.extend(rows("the last of 4 is acquired and released", "last_permit", &LAST, &[("scripts", 2.3)]));
    let what = format!("4 permits, {} waiters", SCENE.waiters);
    all.push(Row::compare(&what, "permits.rlock", "pub/sub", "permits.pubsub").bar(8.0));
    all.push(Row::compare(&what, "permits.rlock", "BLPOP", "permits.token"));
    all
}
