//! What a held lock takes in memory, as the server counts it: by the commands, and by scripts that do what Redisson's do.
//! And what the module keeps of one who waits.

use crate::batch::{Batch, Pipe};
use crate::contenders::{HOLDER, LONG_LEASE, Module, load_scripts};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::table::{self, Shape};
use crate::{progress, servers};
use rlock_testing::{Client, Reply, scripts};

pub const UNIT: &str = "bytes";

pub fn measure(_: &Plan, figures: &mut Figures) {
    let server = servers::start(Module::Rlock, &[]);
    let mut batch = Batch::default();
    load_scripts(&mut batch);
    Pipe::to(&server).run(&batch);
    let mut client = server.client();
    for (kind, command, script) in [
        ("plain", "RLOCK.ACQUIRE", scripts::ACQUIRE),
        ("read", "RLOCK.RACQUIRE", scripts::READ_ACQUIRE),
        ("write", "RLOCK.WACQUIRE", scripts::WRITE_ACQUIRE),
    ] {
        assert_eq!(client.run(&[command, "orders:42", HOLDER, LONG_LEASE]), Reply::Nil);
        figures.add(&format!("memory.{kind}.rlock"), UNIT, all_keys(&mut client));
        client.say("FLUSHALL");
        take_by(&mut client, kind, script);
        figures.add(&format!("memory.{kind}.scripts"), UNIT, all_keys(&mut client));
        client.say("FLUSHALL");
    }
}

/// So many that what is kept in any case does not count.
pub const WAITERS: usize = 1_000_000;

pub fn of_waiters(_: &Plan, figures: &mut Figures) {
    for shape in [Shape::OneLock, Shape::OneLockInTime, Shape::LockEach] {
        progress::step(shape.id());
        let measured = table::in_its_own_process(shape, WAITERS);
        let bytes = measured.into_iter().filter(|(id, _)| id == table::BYTES).flat_map(|(_, samples)| samples);
        bytes.for_each(|bytes| figures.add(&format!("memory.waiter.{}", shape.id()), UNIT, bytes));
    }
}

fn take_by(client: &mut Client, kind: &str, script: &str) {
    let write_side = format!("{HOLDER}:write");
    let holds = format!("{{orders:42}}:{HOLDER}:rwlock_timeout");
    let holder = if kind == "write" { &write_side } else { HOLDER };
    let words = ["EVAL", script, "2", "orders:42", &holds, LONG_LEASE, holder, &write_side];
    assert_eq!(client.run(&words), Reply::Nil);
}

/// The memory of all keys that there are, which are those of one lock.
fn all_keys(client: &mut Client) -> f64 {
    let keys = client.say("KEYS *");
    let of = |key: &str| client.run(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).as_int() as f64;
    keys.words().into_iter().map(of).sum()
}
