//! Whether a lock costs the same however many others there are: locks, waiters, readers. Instructions, as slopes.

use crate::batch::{Batch, Pipe};
use crate::contenders::{HOLDER, LEASE, LONG_LEASE, Module};
use crate::counted::{Counted, Scope};
use crate::figures::Figures;
use crate::hand_offs::blocked_clients;
use crate::instructions::UNIT;
use crate::plan::Plan;
use crate::{progress, servers};
use rlock_testing::{Client, Reply, wait_until};
use std::path::PathBuf;

pub const READERS: [usize; 2] = [1, 1_000];

/// A cycle with one lock, and with many that others hold.
pub fn of_locks(plan: &Plan, figures: &mut Figures) {
    for locks in [1, plan.many_locks] {
        progress::step(&format!("{locks} locks are taken"));
        let server = servers::start(Module::Rlock, &[]);
        let data = hold(&server, locks);
        progress::step(&format!("{locks} locks are loaded under callgrind"));
        let mut counted = Counted::start_from(Module::Rlock, &data);
        drop(server);
        let mut pipe = Pipe::to(counted.server());
        let mut run = |cycles| counted.count(|| cycle(&mut pipe, cycles));
        run(CYCLES[0]);
        for _ in 0..plan.counts {
            figures.add(&format!("flat.locks.{locks}"), UNIT, slope(CYCLES, &mut run));
        }
    }
}

const CYCLES: [usize; 2] = [320, 1_600];

/// So many locks, in a file that another server can begin with.
fn hold(server: &rlock_testing::Server, locks: usize) -> PathBuf {
    let mut pipe = Pipe::to(server);
    for part in (0..locks).step_by(1_000) {
        let mut batch = Batch::default();
        for lock in part..locks.min(part + 1_000) {
            batch.add(&["RLOCK.ACQUIRE", &format!("held:{lock:07}"), HOLDER, LONG_LEASE]);
        }
        pipe.run(&batch);
    }
    let mut save = Batch::default();
    save.add(&["SAVE"]);
    pipe.run(&save);
    server.socket().with_file_name("dump.rdb")
}

fn cycle(pipe: &mut Pipe, cycles: usize) {
    for part in (0..cycles).step_by(32) {
        let mut batch = Batch::default();
        for lock in part..cycles.min(part + 32) {
            let lock = format!("lock:{lock:07}");
            batch.add(&["RLOCK.ACQUIRE", &lock, HOLDER, LEASE]);
            batch.add(&["RLOCK.RELEASE", &lock, HOLDER]);
        }
        pipe.run(&batch);
    }
}

/// A release that hands over, with one waiter and with many.
pub fn of_waiters(plan: &Plan, figures: &mut Figures) {
    for waiters in [1, plan.many_waiters] {
        progress::step(&format!("{waiters} waiters"));
        let mut counted = Counted::start(Module::Rlock, Scope::Module);
        let mut clients: Vec<_> = (0..=waiters).map(|_| counted.server().client()).collect();
        (0..=waiters).for_each(|number| wait_as(&mut clients[number], number));
        assert_eq!(clients[0].receive(), Reply::Nil);
        let mut watch = counted.server().client();
        let all = format!("rlock_waiters:{waiters}\r");
        wait_until("all wait", || watch.say("INFO rlock").as_text().contains(&all));
        let mut holder = 0;
        let mut run = |turns| counted.count(|| (0..turns).for_each(|_| holder = hand_over(&mut clients, holder)));
        // Each client once: what the first grant on a connection costs is not what one costs later.
        run(waiters + 1);
        for _ in 0..plan.counts.max(3) {
            figures.add(&format!("flat.waiters.{waiters}"), UNIT, slope([100, 500], &mut run));
        }
    }
}

fn wait_as(client: &mut Client, number: usize) {
    client.send(&["RLOCK.ACQUIRE", "lock", &holder_of(number), LONG_LEASE, "WAIT", "0"]);
}

/// The first in the queue gets the lock, and who had it is the last. Both commands of that one go together, so that the
/// queue is equally long whenever the server looks at it again.
fn hand_over(clients: &mut [Client], number: usize) -> usize {
    let next = (number + 1) % clients.len();
    let holder = holder_of(number);
    clients[number].send_together(&[
        &["RLOCK.RELEASE", "lock", &holder],
        &["RLOCK.ACQUIRE", "lock", &holder, LONG_LEASE, "WAIT", "0"],
    ]);
    assert_eq!(clients[number].receive(), Reply::Int(1));
    assert_eq!(clients[next].receive(), Reply::Nil);
    next
}

fn holder_of(number: usize) -> String {
    format!("{HOLDER}{number:05}")
}

/// How many want three locks of eight: all of them one lock, and each two of the others.
pub const SETS: [usize; 3] = [20, 200, 2_000];

/// Who has three locks gives them back and asks again, and the next one gets its three. The first two locks become free
/// while all lack the third, so nobody can be let in, and all who want one of the two would have to be asked.
pub fn of_sets(plan: &Plan, figures: &mut Figures) {
    for sets in SETS.into_iter().filter(|sets| plan.is_whole || *sets <= plan.many_waiters) {
        progress::step(&format!("{sets} want several locks"));
        let mut counted = Counted::start(Module::Rlock, Scope::Module);
        let mut clients: Vec<_> = (0..=sets).map(|_| counted.server().client()).collect();
        let mut watch = counted.server().client();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&as_words(&for_three(number)));
            wait_until("it waits", || blocked_clients(&mut watch) == number);
        }
        assert_eq!(clients[0].receive(), Reply::Nil);
        let mut holder = 0;
        let mut run = |turns| counted.count(|| (0..turns).for_each(|_| holder = hand_three_over(&mut clients, holder)));
        run(sets + 1);
        for _ in 0..plan.counts.max(3) {
            figures.add(&format!("flat.sets.{sets}"), UNIT, slope([100, 500], &mut run));
        }
    }
}

fn three_of(number: usize) -> [String; 3] {
    let [second, third] = [0, 1].map(|offset| 1 + (2 * number + offset) % 7);
    [0, second, third].map(|lock| format!("lock:{lock}"))
}

fn for_three(number: usize) -> Vec<String> {
    let three = three_of(number);
    let words = ["RLOCK.MACQUIRE", "3", &three[0], &three[1], &three[2], &holder_of(number), LONG_LEASE, "WAIT", "0"];
    words.map(str::to_owned).to_vec()
}

fn as_words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn hand_three_over(clients: &mut [Client], number: usize) -> usize {
    let next = (number + 1) % clients.len();
    let (three, holder, again) = (three_of(number), holder_of(number), for_three(number));
    let releases = [1, 2, 0].map(|place| ["RLOCK.RELEASE", &three[place], &holder]);
    clients[number].send_together(&[&releases[0], &releases[1], &releases[2], &as_words(&again)]);
    (0..3).for_each(|_| assert_eq!(clients[number].receive(), Reply::Int(1)));
    assert_eq!(clients[next].receive(), Reply::Nil);
    next
}

/// The release of a read, with one other reader and with many, by a reader whose lease is not the longest, and by one
/// whose lease is. Locks are many, so that each keeps its number of readers.
pub fn of_readers(plan: &Plan, figures: &mut Figures) {
    for (readers, id, lease) in
        READERS.into_iter().flat_map(|readers| [(readers, "readers", LEASE), (readers, "last_reader", LONGEST_LEASE)])
    {
        progress::step(&format!("{readers} readers"));
        let mut counted = Counted::start(Module::Rlock, Scope::Everything);
        let mut pipe = Pipe::to(counted.server());
        for lock in 0..READ_LOCKS[1] {
            pipe.run(&read(lock, readers));
        }
        let mut run = |locks| {
            (0..locks).for_each(|lock| pipe.run(&one_more_read(lock, lease)));
            counted.count(|| (0..locks).for_each(|lock| pipe.run(&one_less_read(lock))))
        };
        // What the first release in a server costs is not what one costs later.
        run(READ_LOCKS[1]);
        for _ in 0..plan.counts {
            figures.add(&format!("flat.{id}.{readers}"), UNIT, slope(READ_LOCKS, &mut run));
        }
    }
}

/// Longer than [`LONG_LEASE`].
const LONGEST_LEASE: &str = "9000000";

const READ_LOCKS: [usize; 2] = [5, 20];

/// Whom those find who come last and leave first: one reader; as many as a release may look at all of; and more.
pub const STAYING: [usize; 3] = [1, 200, 1_000];

/// How many come last.
pub const LAST: usize = 48;

/// Readers that come last, each with a longer lease than all before it, and leave first, the last one first: so whoever
/// leaves has the lock's lease, and no two find the same. Each release is counted by itself. Where only one stays, they come
/// and go one after the other with a lease that is not the longest: a release in which there is little to find out.
pub fn of_last_readers(_: &Plan, figures: &mut Figures) {
    for staying in STAYING {
        progress::step(&format!("{staying} readers stay"));
        let mut counted = Counted::start(Module::Rlock, Scope::Module);
        let mut pipe = Pipe::to(counted.server());
        pipe.run(&read(0, staying));
        let is_quiet = staying == 1;
        // What the first release in a server costs is not what one costs later.
        pipe.run(&one_more_read(0, LEASE));
        pipe.run(&one_less_read(0));
        if !is_quiet {
            (0..LAST).for_each(|number| pipe.run(&come_last(number)));
        }
        for number in (0..LAST).rev() {
            if is_quiet {
                pipe.run(&one_more_read(0, LEASE));
            }
            let release = if is_quiet { one_less_read(0) } else { leave_first(number) };
            figures.add(&format!("flat.leaving.{staying}"), UNIT, counted.count(|| pipe.run(&release)));
        }
    }
}

fn come_last(number: usize) -> Batch {
    let longest: usize = LONGEST_LEASE.parse().expect("a number of ms");
    let mut batch = Batch::default();
    batch.add(&["RLOCK.RACQUIRE", "read:0", &last_reader(number), &(longest + number * 1_000).to_string()]);
    batch
}

fn leave_first(number: usize) -> Batch {
    let mut batch = Batch::default();
    batch.add(&["RLOCK.RELEASE", "read:0", &last_reader(number), "READ"]);
    batch
}

/// As long as [`HOLDER`], so that names cost the same.
fn last_reader(number: usize) -> String {
    format!("{}{number:02}", &HOLDER[..HOLDER.len() - 2])
}

fn read(lock: usize, readers: usize) -> Batch {
    let mut batch = Batch::default();
    for reader in 0..readers {
        batch.add(&["RLOCK.RACQUIRE", &format!("read:{lock}"), &format!("{HOLDER}{reader:05}"), LONG_LEASE]);
    }
    batch
}

fn one_more_read(lock: usize, lease: &str) -> Batch {
    let mut batch = Batch::default();
    batch.add(&["RLOCK.RACQUIRE", &format!("read:{lock}"), HOLDER, lease]);
    batch
}

fn one_less_read(lock: usize) -> Batch {
    let mut batch = Batch::default();
    batch.add(&["RLOCK.RELEASE", &format!("read:{lock}"), HOLDER, "READ"]);
    batch
}

fn slope([short, long]: [usize; 2], run: &mut impl FnMut(usize) -> f64) -> f64 {
    let [few, many] = [short, long].map(&mut *run);
    (many - few) / (long - short) as f64
}
