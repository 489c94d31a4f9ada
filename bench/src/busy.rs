//! A client asks for a lock that another holder has, and does not wait.

use crate::Part;
use crate::contenders::{Contender, HOLDER, LEASE, LONG_LEASE, Lab, SCRIPTS, by_hash, contender, rows};
use crate::servers::Module;
use rlock_testing::scripts;

pub const PART: Part = Part {
    name: "busy",
    how: "A client asks for a lock that another holder has.",
    measure: |plan, figures| Lab::start(&[]).measure(plan, figures, "busy", &BUSY),
    rows: |_| {
        let rows = rows("a busy lock is refused", "busy", &BUSY, &[("set", 0.91)]);
        rows.into_iter().map(|row| row.because(TWO_LOOK_UPS)).collect()
    },
};

const TWO_LOOK_UPS: &str = "**A busy lock** is answered with the time left of its lease, which `SET NX` does not \
    tell. For that the server looks the lease up twice, once to open the key and once to tell it; and the module \
    looks for the asker's own field in the hash.";

const OTHER: &str = "another-holder:1";

const BUSY: [Contender; 3] = [
    contender(
        "rlock",
        "RLOCK.ACQUIRE",
        Module::Rlock,
        |batch| batch.add(&["RLOCK.ACQUIRE", "busy", OTHER, LONG_LEASE]),
        |batch, _| batch.add(&["RLOCK.ACQUIRE", "busy", HOLDER, LEASE]),
    ),
    contender(
        "set",
        "SET NX PX",
        Module::None,
        |batch| batch.add(&["SET", "busy", OTHER, "PX", LONG_LEASE]),
        |batch, _| batch.add(&["SET", "busy", HOLDER, "NX", "PX", LEASE]),
    ),
    contender(
        "scripts",
        SCRIPTS,
        Module::None,
        |batch| by_hash(batch, scripts::ACQUIRE, &["busy by script"], &[LONG_LEASE, OTHER]),
        |batch, _| by_hash(batch, scripts::ACQUIRE, &["busy by script"], &[LEASE, HOLDER]),
    ),
];
