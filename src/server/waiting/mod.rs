//! Waiting in the server: clients that are blocked until a lock is theirs, and sessions that wait by tickets.
//!
//! [`rlock_core::waiting`] decides which waiter is served when; here is the host that it acts on: the server's keys and
//! clients, its one timer, and the events that report what others do. This file is what commands use.

mod blocked_client;
mod callbacks;
mod grace;
mod host;
mod sessions;
pub(super) mod state;
mod telling;
mod views;

use super::edge::ErrorLine;
use super::ffi::context::Context;
use super::ffi::string::Str;
use blocked_client::BlockedClient;
use host::Server;
use rlock_core::lock::Wish;
use rlock_core::waiting::Engine;
use rlock_core::waiting::commands::Rejected;

pub(super) use callbacks::subscribe;
pub(super) use grace::begin as begin_grace;
pub(super) use host::steady_ms;
pub use rlock_core::waiting::commands::{Acquiring, Waiting};
pub use sessions::{EventsCall, cancel, end, events};
pub use views::{SessionView, WaiterView, beginning, queue, queues, sessions as list_sessions};

/// Acquires a lock for the client of this command, which may wait for it; with a ticket, which is named by its session
/// and itself.
///
/// # Errors
/// The error reply.
pub fn acquire(
    context: &Context,
    key: Str<'_>,
    wish: &Wish<Str<'_>>,
    waiting: Option<Waiting<(Str<'_>, Str<'_>)>>,
) -> Result<Acquiring, ErrorLine> {
    let waiting = match waiting {
        Some(Waiting { limit_ms, max, ticket: Some((session, ticket)) }) => {
            Some(Waiting { limit_ms, max, ticket: Some((sessions::find(context, session)?, ticket)) })
        }
        Some(Waiting { limit_ms, max, ticket: None }) => Some(Waiting { limit_ms, max, ticket: None }),
        None => None,
    };
    run(context, |engine, server| engine.acquire(server, key, wish, waiting))
}

/// Runs a command by the engine; if anyone waits, the timer then goes off in time.
///
/// # Errors
/// The error reply.
#[inline]
pub fn run<T>(
    context: &Context,
    command: impl FnOnce(&mut Engine<BlockedClient>, &Server<'_>) -> Result<T, Rejected>,
) -> Result<T, ErrorLine> {
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

impl From<Rejected> for ErrorLine {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Refused(refusal) => refusal.into(),
            Rejected::Paused => PAUSED,
            Rejected::TicketInUse => TICKET_IN_USE,
            Rejected::QueueFull => QUEUE_FULL,
            Rejected::TicketsFull => TICKETS_FULL,
        }
    }
}

const PAUSED: ErrorLine = ErrorLine(c"TRYAGAIN writes are paused on this server");

const TICKET_IN_USE: ErrorLine = ErrorLine(
    c"ERR ticket is in use for another wait: for another lock, holder or side, or by FENCED, until its event is acknowledged",
);

const TICKETS_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many tickets are in use as rlock.max-tickets allows");

const QUEUE_FULL: ErrorLine = ErrorLine(c"QUEUEFULL as many clients wait for locks as rlock.max-waiters allows");
