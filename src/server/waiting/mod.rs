//! Waiting in the server: clients that are blocked until a lock is theirs, and sessions that wait by tickets.
//!
//! [`rlock_core::waiting`] decides which waiter is served when; here is the host that it acts on: the server's keys and
//! clients, its one timer, and the events that report what others do. This file is what commands use.

mod blocked_client;
mod callbacks;
mod fences;
mod grace;
mod host;
mod sessions;
mod standstill;
pub(super) mod state;
mod telling;
mod views;

use super::ffi::context::Context;
use super::ffi::string::Str;
pub(super) use blocked_client::BlockedClient;
use host::Server;
use rlock_core::lock::{Lease, Release, Released, Renewed, Wish};
use rlock_core::waiting::Engine;
use rlock_core::waiting::commands::{Rejected, Wait};
use rlock_core::words::Error;

pub(super) use callbacks::subscribe;
pub(super) use grace::begin as begin_grace;
pub use rlock_core::waiting::commands::{Acquiring, Waiting};
pub use sessions::{EventsCall, cancel, end, events};
#[cfg(test)]
pub use telling::EVENTS_BYTES_MAX;
pub use views::{SessionView, WaiterView, beginning, queue, queues, sessions as list_sessions};

/// Acquires a lock for the client of this command. If it must wait, the client waits, or a ticket, which is named by its
/// session and its own name.
///
/// # Errors
/// The error reply.
pub fn acquire(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<(Str<'_>, Str<'_>)>>,
) -> Result<Acquiring, Error> {
    let waiting = begin(context, waiting)?;
    run(context, |engine, server| engine.acquire(server, key, wish, waiting))
}

/// The same for several plain locks: all or none.
///
/// # Errors
/// The error reply.
pub fn acquire_all(
    context: &Context,
    keys: &[Str<'_>],
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<(Str<'_>, Str<'_>)>>,
) -> Result<Acquiring, Error> {
    let waiting = begin(context, waiting)?;
    run(context, |engine, server| engine.acquire_all(server, keys, wish, waiting))
}

/// Returns the stored answer; if there is none, does the same as [`acquire`].
///
/// # Errors
/// The error reply.
pub fn once(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<(Str<'_>, Str<'_>)>>,
) -> Result<Acquiring, Error> {
    let waiting = begin(context, waiting)?;
    run(context, |engine, server| engine.once(server, key, wish, waiting))
}

/// # Errors
/// The error reply.
pub fn answer(context: &Context, key: Str<'_>, holder: Str<'_>, answer: (Str<'_>, Lease)) -> Result<bool, Error> {
    run(context, |engine, server| engine.answer(server, key, holder, answer))
}

/// Finds the session of a wait by ticket.
///
/// # Errors
/// The error reply.
fn begin<'a>(context: &Context, waiting: Option<Waiting<(Str<'a>, Str<'a>)>>) -> Result<Option<Wait<'a>>, Error> {
    let Some(Waiting { limit_ms, max, ticket }) = waiting else { return Ok(None) };
    let ticket = match ticket {
        Some((session, ticket)) => Some((sessions::find(context, session)?, ticket.bytes())),
        None => None,
    };
    Ok(Some(Waiting { limit_ms, max, ticket }))
}

/// # Errors
/// The error reply.
pub fn release(context: &Context, key: Str<'_>, holder: Str<'_>, want: Release) -> Result<Released, Error> {
    run(context, |engine, server| engine.release(server, key, holder, want))
}

/// # Errors
/// The error reply.
pub fn renew(context: &Context, key: Str<'_>, holder: Str<'_>, lease: Lease) -> Result<Renewed, Error> {
    run(context, |engine, server| engine.renew(server, key, holder, lease))
}

/// Breaks a lock. If it has many read holds, the timer deletes the rest of them.
///
/// # Errors
/// The error reply.
pub fn break_lock(context: &Context, key: Str<'_>) -> Result<bool, Error> {
    let broken = run(context, |engine, server| engine.break_lock(server, key));
    callbacks::arm_timer(context);
    broken
}

/// Runs a command by the engine. If there are waiters, the timer then goes off in time.
///
/// # Errors
/// The error reply.
#[inline]
pub fn run<T>(
    context: &Context,
    command: impl FnOnce(&mut Engine<BlockedClient>, &Server<'_>) -> Result<T, Rejected>,
) -> Result<T, Error> {
    let mut engine = state::engine()?;
    let someone_waited = engine.length() > 0;
    let result = command(&mut engine, &Server::new(context));
    let someone_waits = engine.length() > 0;
    drop(engine);
    if someone_waited || someone_waits || state::has_notes() {
        callbacks::arm_timer(context);
    }
    Ok(result?)
}
