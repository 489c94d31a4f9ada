//! A lock is acquired and released: alone, with an AOF file, with a replica, and the two sides of a read-write lock.

use crate::Part;
use crate::contenders::{Contender, HOLDER, LEASE, Lab, SCRIPTS, by_hash, channel, contender, nothing, rows};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::Row;
use crate::servers::{self, Module};
use rlock_testing::{Server, scripts, wait_until};

pub const PART: Part = Part {
    name: "cycle",
    how: "RLOCK.ACQUIRE and RLOCK.RELEASE, each time of another lock; holders have 39 bytes. `SET` and `DEL` alone \
              release the lock of any holder. With an AOF file (`appendfsync everysec`), and with one replica, whose \
              own work does not count, each change also goes to the followers.",
    measure,
    rows: all_rows,
};

const LATCH_LEASE: &str = "16000";

const CYCLE: [Contender; 5] = [
    contender("rlock", "RLOCK", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.ACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
    }),
    contender("set_del", "SET NX PX + DEL", Module::None, nothing, |batch, lock| {
        batch.add(&["SET", lock, HOLDER, "NX", "PX", LEASE]);
        batch.add(&["DEL", lock]);
    }),
    contender("set_script", "SET NX PX + compare and delete by script", Module::None, nothing, |batch, lock| {
        batch.add(&["SET", lock, HOLDER, "NX", "PX", LEASE]);
        by_hash(batch, scripts::COMPARE_AND_DELETE, &[lock], &[HOLDER]);
    }),
    contender("scripts", SCRIPTS, Module::None, nothing, |batch, lock| {
        by_hash(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
        by_hash(batch, scripts::RELEASE, &[lock, &channel(lock)], &["0", LEASE, HOLDER]);
    }),
    contender(
        "scripts_latch",
        "… with the unlock latch of today's Redisson",
        Module::None,
        nothing,
        |batch, lock| {
            by_hash(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
            let latch = format!("redisson_unlock_latch:{{{lock}}}:00112233445566778899aabbccddeeff");
            let keys = [lock, &channel(lock), &latch];
            by_hash(batch, scripts::RELEASE_WITH_LATCH, &keys, &["0", LEASE, HOLDER, LATCH_LEASE]);
            batch.add(&["DEL", &latch]);
        },
    ),
];

const READ: [Contender; 2] = [
    contender("rlock", "RLOCK", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.RACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER, "READ"]);
    }),
    contender("scripts", SCRIPTS, Module::None, nothing, |batch, lock| {
        let holds = format!("{{{lock}}}:{HOLDER}:rwlock_timeout");
        by_hash(batch, scripts::READ_ACQUIRE, &[lock, &holds], &[LEASE, HOLDER, &write_side()]);
        let keys = [lock, &rw_channel(lock), &holds, &format!("{{{lock}}}")];
        by_hash(batch, scripts::READ_RELEASE, &keys, &["0", HOLDER]);
    }),
];

const WRITE: [Contender; 2] = [
    contender("rlock", "RLOCK", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.WACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER, "WRITE"]);
    }),
    contender("scripts", SCRIPTS, Module::None, nothing, |batch, lock| {
        by_hash(batch, scripts::WRITE_ACQUIRE, &[lock], &[LEASE, &write_side()]);
        let keys = [lock, &rw_channel(lock)];
        by_hash(batch, scripts::WRITE_RELEASE, &keys, &["1", LEASE, &write_side()]);
    }),
];

fn rw_channel(lock: &str) -> String {
    format!("redisson_rwlock:{{{lock}}}")
}

fn write_side() -> String {
    format!("{HOLDER}:write")
}

fn measure(plan: &Plan, figures: &mut Figures) {
    let mut lab = Lab::start(&[]);
    lab.measure(plan, figures, "cycle", &CYCLE);
    lab.measure(plan, figures, "read", &READ);
    lab.measure(plan, figures, "write", &WRITE);
    let _replicas: Vec<_> = lab.servers().map(follow).collect();
    lab.measure(plan, figures, "replica", &CYCLE);
    let mut lab = Lab::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    lab.measure(plan, figures, "aof", &CYCLE);
}

fn follow(master: &Server) -> Server {
    let port = master.port().to_string();
    let replica = servers::prepare(Module::None).options(&["--replicaof", "127.0.0.1", &port]).start();
    let mut client = master.client();
    wait_until("the replica follows", || client.say("INFO replication").as_text().contains("state=online"));
    replica
}

const FOLLOWERS: &str = "**Followers** get three commands for each cycle: the lock as a whole, its end, and the \
    message at its end, which subscribers of replicas would not get otherwise. For each of them the server looks up \
    the command by its name and copies its arguments (`RM_Replicate`). A replica gets the last two in a transaction, \
    which is two more commands.";

const READ_WRITE: &str = "**A read-write lock** is a hash of two fields, and each read hold is a key with a name of \
    some sixty bytes that the server hashes each time. So a read cycle makes and deletes two keys. Redisson's \
    clients expect this layout, and the messages.";

fn all_rows(_: &Plan) -> Vec<Row> {
    let because = |rows: Vec<Row>, why| rows.into_iter().map(move |row| row.because(why));
    let alone = [("set_del", 0.53), ("scripts", 3.0), ("scripts_latch", 4.3)];
    let followed = |what, id, bar| because(rows(what, id, &CYCLE, &[("scripts", bar)]), FOLLOWERS);
    rows("acquire and release", "cycle", &CYCLE, &alone)
        .into_iter()
        .chain(followed("… with an AOF file", "aof", 2.5))
        .chain(followed("… with a replica", "replica", 2.8))
        .chain(because(rows("the read side of a read-write lock", "read", &READ, &[("scripts", 4.0)]), READ_WRITE))
        .chain(because(rows("the write side", "write", &WRITE, &[("scripts", 4.0)]), READ_WRITE))
        .collect()
}
