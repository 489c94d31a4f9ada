//! Signals, sent by the system call itself: the program `kill` is not on every system, and tests are to need nothing that
//! a bare one has not.

pub use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::io;

/// Sends a signal to that one process.
///
/// # Errors
/// If the process is not there, or is somebody else's.
pub fn send_signal(process: u32, signal: Signal) -> io::Result<()> {
    // Nought and less would be groups of processes, our own among them.
    let Some(process) = i32::try_from(process).ok().filter(|it| *it > 0) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(kill(Pid::from_raw(process), signal)?)
}
