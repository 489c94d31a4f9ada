//! Signals, sent by the system call itself: the program `kill` is not on every system, and tests must need nothing that
//! a bare system lacks.

pub use nix::sys::signal::Signal;
use nix::sys::signal::{kill, killpg};
use nix::unistd::Pid;
use std::io;

/// Sends a signal to that one process.
///
/// # Errors
/// If there is no such process, or it belongs to another user.
pub fn send_signal(process: u32, signal: Signal) -> io::Result<()> {
    Ok(kill(positive(process)?, signal)?)
}

/// Sends a signal to a process that was started as the leader of a group, and to the whole group.
///
/// # Errors
/// If there is no such group.
pub fn send_signal_to_group(first: u32, signal: Signal) -> io::Result<()> {
    Ok(killpg(positive(first)?, signal)?)
}

/// Zero and negative numbers would mean groups of processes, our own among them.
fn positive(process: u32) -> io::Result<Pid> {
    let process = i32::try_from(process).ok().filter(|it| *it > 0);
    process.map(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
