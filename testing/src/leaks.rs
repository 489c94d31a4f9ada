//! A server built with the address sanitizer looks for leaks when it exits, and reports them on the way. If
//! `RLOCK_LEAKS` asks for that, servers are asked to end, and not killed.

use crate::{PATIENCE, Signal, send_signal};
use std::process::Child;
use std::time::{Duration, Instant};

pub(crate) fn are_looked_for() -> bool {
    std::env::var_os("RLOCK_LEAKS").is_some()
}

/// Without it, a server that ends waits for its replicas, which may have ended before.
pub(crate) const OPTIONS: [&str; 2] = ["--shutdown-timeout", "0"];

/// Asks the process to end, and waits until it has, with a limit.
pub(crate) fn end_gracefully(process: &mut Child) {
    let deadline = Instant::now() + PATIENCE;
    if is_running(process) {
        // A frozen process handles no signal before it continues.
        let _ = send_signal(process.id(), Signal::SIGTERM).and_then(|()| send_signal(process.id(), Signal::SIGCONT));
    }
    while is_running(process) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process that was waited for has no id any more: the id may belong to another process.
fn is_running(process: &mut Child) -> bool {
    matches!(process.try_wait(), Ok(None))
}
