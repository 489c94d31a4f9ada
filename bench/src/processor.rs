//! The processor's time that a server has used.

use crate::waiters::told_by_info;
use rlock_testing::Client;

/// In seconds, since the server began.
pub fn used_by_server(client: &mut Client) -> f64 {
    ["used_cpu_user", "used_cpu_sys"].map(|name| told_by_info(client, "cpu", name)).iter().sum()
}
