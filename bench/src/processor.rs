//! The processor's time that a server has used, and that this process has, whichever of its threads.

use crate::waiters::told_by_info;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rlock_testing::Client;

/// In seconds, since the server began.
pub fn used_by_server(client: &mut Client) -> f64 {
    ["used_cpu_user", "used_cpu_sys"].map(|name| told_by_info(client, "cpu", name)).iter().sum()
}

/// In seconds, since this process began.
pub fn used_here() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask what it has used");
    [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds() as f64 / 1e6).iter().sum()
}
