//! The exit codes. CMD's own codes pass through `rlock run`, so these are from sysexits.h and from shells, where few
//! programs have theirs. docs/command-line.md has the same table.

/// There is no such lock, or the user answered no.
pub const NOTHING_DONE: u8 = 1;
/// Wrong arguments, or an address that cannot be read.
pub const USAGE: u8 = 64;
/// No server answers, or it cannot do it now.
pub const UNAVAILABLE: u8 = 69;
/// A bug in rlock.
pub const DEFECT: u8 = 70;
/// This system fails: no memory for a process, no place for the output.
pub const SYSTEM: u8 = 74;
/// The lock was not free in time. `--busy-code` changes it.
pub const BUSY: u8 = 75;
/// The lock was lost while CMD ran.
pub const LOST: u8 = 76;
/// The server refuses the password, or the user lacks a right.
pub const FORBIDDEN: u8 = 77;
/// The server will never do it as things are: no module, a lock of the other kind, a lease that is too long.
pub const REFUSED: u8 = 78;
/// CMD cannot be executed, as in shells.
pub const NOT_EXECUTABLE: u8 = 126;
/// CMD was not found, as in shells.
pub const NOT_FOUND: u8 = 127;

/// Ended by a signal, as shells say it.
pub fn by_signal(signal: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
}
