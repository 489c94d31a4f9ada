//! Who is compared with whom: what each sends for one step.

use crate::batch::Batch;
use redis::Script;
use rlock_testing::scripts;

/// As long as Redisson's holders are: a UUID and a thread.
pub const HOLDER: &str = "b983c153-7421-469a-addb-44fb92259a1b:42";
pub const LEASE: &str = "30000";
/// What a foreign holder, and what must outlive a measurement, has.
pub const LONG_LEASE: &str = "6000000";
const OTHER: &str = "somebody-else:1";
const LATCH_LEASE: &str = "16000";

/// Which server a contender needs. Each has its own, since a module that listens to events slows all writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    None,
    Rlock,
    Noop,
}

pub struct Contender {
    /// What its figures are called, behind the name of what is measured.
    pub id: &'static str,
    pub name: &'static str,
    pub module: Module,
    /// What is sent once, before.
    pub before: fn(&mut Batch),
    /// One step, on the lock of this name.
    pub step: fn(&mut Batch, &str),
}

const fn contender(
    id: &'static str,
    name: &'static str,
    module: Module,
    before: fn(&mut Batch),
    step: fn(&mut Batch, &str),
) -> Contender {
    Contender { id, name, module, before, step }
}

fn nothing(_: &mut Batch) {}

/// A lock is taken and given back; each time another one.
pub const PAIRS: [Contender; 8] = [
    contender("noop", "two commands of a module that do nothing", Module::Noop, nothing, |batch, lock| {
        batch.add(&["NOOP", lock, HOLDER, LEASE]);
        batch.add(&["NOOP", lock, HOLDER]);
    }),
    contender("set_del", "SET NX PX + DEL", Module::None, nothing, |batch, lock| {
        batch.add(&["SET", lock, HOLDER, "NX", "PX", LEASE]);
        batch.add(&["DEL", lock]);
    }),
    contender("rlock", "**RLOCK**", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.ACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
    }),
    contender("set_script", "SET NX PX + compare and delete by script", Module::None, nothing, |batch, lock| {
        batch.add(&["SET", lock, HOLDER, "NX", "PX", LEASE]);
        by_hash(batch, scripts::COMPARE_AND_DELETE, &[lock], &[HOLDER]);
    }),
    contender("scripts", "Redisson's scripts, EVALSHA", Module::None, nothing, |batch, lock| {
        by_hash(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
        by_hash(batch, scripts::RELEASE, &[lock, &channel(lock)], &["0", LEASE, HOLDER]);
    }),
    contender(
        "scripts_latch",
        "… with unlock latch, as Redisson does today",
        Module::None,
        nothing,
        |batch, lock| {
            by_hash(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
            let latch = latch(lock);
            let keys = [lock, &channel(lock), &latch];
            by_hash(batch, scripts::RELEASE_WITH_LATCH, &keys, &["0", LEASE, HOLDER, LATCH_LEASE]);
            batch.add(&["DEL", &latch]);
        },
    ),
    contender("eval", "Redisson's scripts, EVAL", Module::None, nothing, |batch, lock| {
        by_text(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
        by_text(batch, scripts::RELEASE, &[lock, &channel(lock)], &["0", LEASE, HOLDER]);
    }),
    contender("eval_latch", "… with unlock latch", Module::None, nothing, |batch, lock| {
        by_text(batch, scripts::ACQUIRE, &[lock], &[LEASE, HOLDER]);
        let latch = latch(lock);
        let keys = [lock, &channel(lock), &latch];
        by_text(batch, scripts::RELEASE_WITH_LATCH, &keys, &["0", LEASE, HOLDER, LATCH_LEASE]);
        batch.add(&["DEL", &latch]);
    }),
];

/// Which of them is ours.
pub const RLOCK: usize = 2;

/// Somebody else has the lock.
pub const BUSY: [Contender; 3] = [
    contender(
        "set",
        "SET NX PX",
        Module::None,
        |batch| batch.add(&["SET", "busy", OTHER, "PX", LONG_LEASE]),
        |batch, _| batch.add(&["SET", "busy", HOLDER, "NX", "PX", LEASE]),
    ),
    contender(
        "rlock",
        "**RLOCK.ACQUIRE**",
        Module::Rlock,
        |batch| batch.add(&["RLOCK.ACQUIRE", "busy", OTHER, LONG_LEASE]),
        |batch, _| batch.add(&["RLOCK.ACQUIRE", "busy", HOLDER, LEASE]),
    ),
    contender(
        "scripts",
        "Redisson's script, EVALSHA",
        Module::None,
        |batch| by_hash(batch, scripts::ACQUIRE, &["busy by script"], &[LONG_LEASE, OTHER]),
        |batch, _| by_hash(batch, scripts::ACQUIRE, &["busy by script"], &[LEASE, HOLDER]),
    ),
];

/// The lease of one lock restarts.
pub const RENEWALS: [Contender; 3] = [
    contender(
        "pexpire",
        "PEXPIRE",
        Module::None,
        |batch| batch.add(&["SET", "kept", HOLDER, "PX", LEASE]),
        |batch, _| batch.add(&["PEXPIRE", "kept", LEASE]),
    ),
    contender(
        "rlock",
        "**RLOCK.RENEW**",
        Module::Rlock,
        |batch| batch.add(&["RLOCK.ACQUIRE", "kept", HOLDER, LEASE]),
        |batch, _| batch.add(&["RLOCK.RENEW", "kept", HOLDER, LEASE]),
    ),
    contender(
        "scripts",
        "Redisson's script, EVALSHA",
        Module::None,
        |batch| by_hash(batch, scripts::ACQUIRE, &["kept by script"], &[LEASE, HOLDER]),
        |batch, _| by_hash(batch, scripts::RENEW, &["kept by script"], &[LEASE, HOLDER]),
    ),
];

pub const READS: [Contender; 2] = [
    contender("rlock", "**RLOCK.RACQUIRE + RELEASE**", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.RACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER, "READ"]);
    }),
    contender("scripts", "Redisson's scripts, EVALSHA", Module::None, nothing, |batch, lock| {
        let holds = format!("{{{lock}}}:{HOLDER}:rwlock_timeout");
        by_hash(batch, scripts::READ_ACQUIRE, &[lock, &holds], &[LEASE, HOLDER, &write_side()]);
        let keys = [lock, &rw_channel(lock), &holds, &format!("{{{lock}}}")];
        by_hash(batch, scripts::READ_RELEASE, &keys, &["0", HOLDER]);
    }),
];

pub const WRITES: [Contender; 2] = [
    contender("rlock", "**RLOCK.WACQUIRE + RELEASE**", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.WACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER, "WRITE"]);
    }),
    contender("scripts", "Redisson's scripts, EVALSHA", Module::None, nothing, |batch, lock| {
        by_hash(batch, scripts::WRITE_ACQUIRE, &[lock], &[LEASE, &write_side()]);
        let keys = [lock, &rw_channel(lock)];
        by_hash(batch, scripts::WRITE_RELEASE, &keys, &["1", LEASE, &write_side()]);
    }),
];

/// As many as may have a permit at once.
const LIMIT: &str = "4";

/// A permit is taken and given back: where nobody else has one, or where three others have, so that it is the last.
pub const PERMITS: [Contender; 5] = [
    contender("plain", "a plain lock", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.ACQUIRE", lock, HOLDER, LEASE]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
    }),
    contender("rlock", "**RLOCK.PACQUIRE + RELEASE**, the first of 4", Module::Rlock, nothing, |batch, lock| {
        batch.add(&["RLOCK.PACQUIRE", lock, HOLDER, LEASE, "LIMIT", LIMIT]);
        batch.add(&["RLOCK.RELEASE", lock, HOLDER]);
    }),
    contender(
        "rlock_last",
        "**RLOCK.PACQUIRE + RELEASE**, the last of 4",
        Module::Rlock,
        |batch| {
            for other in OTHERS {
                batch.add(&["RLOCK.PACQUIRE", "permits", other, LONG_LEASE, "LIMIT", LIMIT]);
            }
        },
        |batch, _| {
            batch.add(&["RLOCK.PACQUIRE", "permits", HOLDER, LEASE, "LIMIT", LIMIT]);
            batch.add(&["RLOCK.RELEASE", "permits", HOLDER]);
        },
    ),
    contender(
        "scripts",
        "Redisson's scripts, EVALSHA, the first of 4",
        Module::None,
        |batch| batch.add(&["SET", "semaphore", LIMIT]),
        |batch, _| permit_by_script(batch, "semaphore"),
    ),
    contender(
        "scripts_last",
        "Redisson's scripts, EVALSHA, the last of 4",
        Module::None,
        |batch| {
            batch.add(&["SET", "busy semaphore", "1"]);
            for other in OTHERS {
                batch.add(&["ZADD", &ends_of("busy semaphore"), LATER, other]);
            }
        },
        |batch, _| permit_by_script(batch, "busy semaphore"),
    ),
];

/// As long as Redisson's names of permits.
const OTHERS: [&str; 3] = ["0000000000000001", "0000000000000002", "0000000000000003"];
const PERMIT: &str = "0123456789abcdef";

/// What Redisson's clients say that the time is, and two ends of permits after it.
pub const PERMIT_TIME: &str = "1800000000000";
pub const PERMIT_END: &str = "1800000030000";
const LATER: &str = "1800006000000";

fn permit_by_script(batch: &mut Batch, semaphore: &str) {
    let (ends, channel) = (ends_of(semaphore), format!("redisson_sc:{{{semaphore}}}"));
    by_hash(batch, scripts::PERMIT_ACQUIRE, &[semaphore, &ends, &channel], &[PERMIT_END, PERMIT_TIME, PERMIT]);
    // The reply is a string, in two lines.
    batch.commands += 1;
    by_hash(batch, scripts::PERMIT_RELEASE, &[semaphore, &channel, &ends], &[PERMIT, PERMIT_TIME]);
}

fn ends_of(semaphore: &str) -> String {
    format!("{{{semaphore}}}:timeout")
}

/// The pairs that are also measured with an AOF file and with a replica.
pub fn is_measured_with_followers(contender: &Contender) -> bool {
    ["rlock", "set_del", "scripts", "scripts_latch"].contains(&contender.id)
}

/// All scripts, known to the server.
pub fn load_scripts(batch: &mut Batch) {
    for script in scripts::ALL {
        // The reply is the hash, in two lines.
        batch.add(&["SCRIPT", "LOAD", script]);
        batch.commands += 1;
    }
}

fn by_hash(batch: &mut Batch, script: &str, keys: &[&str], arguments: &[&str]) {
    evaluate(batch, ["EVALSHA", Script::new(script).get_hash()], keys, arguments);
}

fn by_text(batch: &mut Batch, script: &str, keys: &[&str], arguments: &[&str]) {
    evaluate(batch, ["EVAL", script], keys, arguments);
}

fn evaluate(batch: &mut Batch, what: [&str; 2], keys: &[&str], arguments: &[&str]) {
    let count = keys.len().to_string();
    batch.add(&[&what, &[count.as_str()][..], keys, arguments].concat());
}

fn channel(lock: &str) -> String {
    format!("redisson_lock__channel:{{{lock}}}")
}

fn rw_channel(lock: &str) -> String {
    format!("redisson_rwlock:{{{lock}}}")
}

fn latch(lock: &str) -> String {
    format!("redisson_unlock_latch:{{{lock}}}:00112233445566778899aabbccddeeff")
}

fn write_side() -> String {
    format!("{HOLDER}:write")
}
