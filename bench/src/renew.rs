//! The lease of one lock restarts.

use crate::Part;
use crate::contenders::{Contender, HOLDER, LEASE, Lab, SCRIPTS, by_hash, contender, rows};
use crate::servers::Module;
use rlock_testing::scripts;

pub const PART: Part = Part {
    name: "renew",
    how: "A holder restarts the lease of its lock. `PEXPIRE` restarts the lease of any holder.",
    measure: |plan, figures| Lab::start(&[]).measure(plan, figures, "renew", &RENEWALS),
    rows: |_| rows("a lease is renewed", "renew", &RENEWALS, &[("pexpire", 0.65)]),
};

const RENEWALS: [Contender; 3] = [
    contender(
        "rlock",
        "RLOCK.RENEW",
        Module::Rlock,
        |batch| batch.add(&["RLOCK.ACQUIRE", "kept", HOLDER, LEASE]),
        |batch, _| batch.add(&["RLOCK.RENEW", "kept", HOLDER, LEASE]),
    ),
    contender(
        "pexpire",
        "PEXPIRE",
        Module::None,
        |batch| batch.add(&["SET", "kept", HOLDER, "PX", LEASE]),
        |batch, _| batch.add(&["PEXPIRE", "kept", LEASE]),
    ),
    contender(
        "scripts",
        SCRIPTS,
        Module::None,
        |batch| by_hash(batch, scripts::ACQUIRE, &["kept by script"], &[LEASE, HOLDER]),
        |batch, _| by_hash(batch, scripts::RENEW, &["kept by script"], &[LEASE, HOLDER]),
    ),
];
