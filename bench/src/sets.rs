//! Several locks at once: all of them are acquired, and many clients wait for three of eight.

use crate::Part;
use crate::by_clock::words;
use crate::circle::Circle;
use crate::contenders::{Contender, HOLDER, LEASE, LONG_LEASE, Lab, contender, nothing, rows};
use crate::counted::{Scope, UNIT};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::{Row, grouped};
use crate::servers::Module;
use crate::session;

pub const PART: Part = Part {
    name: "sets",
    how: "A cycle acquires three locks and releases each. Waiters want three of eight locks: all of them the same \
              one, and each two of the others. The holder releases its three and asks again, and the next waiter \
              gets its three. The first two releases free locks that no waiter can use, and each release checks at \
              most 16 waiters. The worst case is the largest sets, all of the same 64 locks, which the holder \
              releases in their order. Only the module's instructions count there.",
    measure,
    rows: all_rows,
};

const LOCKS: [&str; 3] = ["a", "b", "c"];

const CYCLE: [Contender; 3] = [
    contender("rlock", "RLOCK.MACQUIRE", Module::Rlock, nothing, |batch, lock| {
        let names = LOCKS.map(|name| format!("{lock}:{name}"));
        batch.add(&["RLOCK.MACQUIRE", "3", &names[0], &names[1], &names[2], HOLDER, LEASE]);
        names.iter().for_each(|name| batch.add(&["RLOCK.RELEASE", name, HOLDER]));
    }),
    contender("one_by_one", "RLOCK.ACQUIRE of each", Module::Rlock, nothing, |batch, lock| {
        let names = LOCKS.map(|name| format!("{lock}:{name}"));
        names.iter().for_each(|name| batch.add(&["RLOCK.ACQUIRE", name, HOLDER, LEASE]));
        names.iter().for_each(|name| batch.add(&["RLOCK.RELEASE", name, HOLDER]));
    }),
    contender("set_del", "SET NX PX + DEL of each", Module::None, nothing, |batch, lock| {
        let names = LOCKS.map(|name| format!("{lock}:{name}"));
        names.iter().for_each(|name| batch.add(&["SET", name, HOLDER, "NX", "PX", LEASE]));
        names.iter().for_each(|name| batch.add(&["DEL", name]));
    }),
];

const THREE_OF_EIGHT: Circle =
    Circle { module: Module::Rlock, scope: Scope::Module, before: "PING", commands: three_of_eight };
const LARGEST: Circle = Circle { commands: |client| same_locks(64, client), ..THREE_OF_EIGHT };
const ONE_LOCK: Circle = Circle { commands: |client| same_locks(1, client), ..THREE_OF_EIGHT };

/// More than a release checks.
const WAITERS: usize = 20;

fn same_locks(count: usize, client: usize) -> Vec<Vec<String>> {
    let holder = session::holder(client);
    let locks: Vec<_> = (0..count).map(|lock| format!("lock:{lock}")).collect();
    let mut commands: Vec<_> = locks.iter().map(|lock| words(["RLOCK.RELEASE", lock, &holder])).collect();
    let mut request = words(["RLOCK.MACQUIRE", &count.to_string()]);
    request.extend(locks.into_iter().chain(words([&holder, LONG_LEASE, "WAIT", "0"])));
    commands.push(request);
    commands
}

fn three_of_eight(client: usize) -> Vec<Vec<String>> {
    let holder = session::holder(client);
    let [second, third] = [0, 1].map(|offset| 1 + (2 * client + offset) % 7);
    let locks = [second, third, 0].map(|lock| format!("lock:{lock}"));
    let mut commands: Vec<_> =
        locks.iter().map(|lock| vec!["RLOCK.RELEASE".to_owned(), lock.clone(), holder.clone()]).collect();
    let [second, third, first] = locks;
    let words = ["RLOCK.MACQUIRE", "3", &first, &second, &third, &holder, LONG_LEASE, "WAIT", "0"];
    commands.push(words.map(str::to_owned).to_vec());
    commands
}

fn measure(plan: &Plan, figures: &mut Figures) {
    Lab::start(&[]).measure(plan, figures, "set_cycle", &CYCLE);
    for (id, waiters) in ["few", "many"].into_iter().zip(plan.sets) {
        THREE_OF_EIGHT.measure(plan, figures, &format!("set.{id}"), waiters);
    }
    for slope in LARGEST.slopes(plan, WAITERS, [20, 60]) {
        figures.add("set.largest", UNIT, slope);
    }
    for slope in ONE_LOCK.slopes(plan, WAITERS, [100, 500]) {
        figures.add("set.sixty_four_singles", UNIT, 64.0 * slope);
    }
}

fn all_rows(plan: &Plan) -> Vec<Row> {
    let mut all = rows("three locks are acquired and released", "set_cycle", &CYCLE, &[]);
    let [few, many] = plan.sets.map(|waiters| grouped(waiters as f64));
    let what = format!("three of eight change hands, {many} waiters");
    all.push(Row::compare(&what, "set.many", &format!("{few} waiters"), "set.few").bar(0.87));
    let what = format!("sixty-four of sixty-four change hands, {WAITERS} waiters");
    all.push(Row::compare(&what, "set.largest", "64 times one lock by MACQUIRE", "set.sixty_four_singles"));
    all
}
