//! Queues and sessions as people on call see them.

use super::state;
use crate::server::edge::settings::SETTINGS;
use crate::server::edge::users::{Addresses, Reader, check_sees_all};
use crate::server::ffi::context::{Context, steady_ms};
use crate::server::ffi::string::Str;
use rlock_core::lock::{Side, UnixMs};
use rlock_core::waiting::{LockName, Names, QueueSummary, Queued, SeenRecipient, SessionSummary};
use rlock_core::words::Error;

/// How many bytes of a session's name are shown.
const SESSION_SHOWN: usize = 8;

/// The queue of one lock.
pub struct QueueView {
    /// The number of all its waiters.
    pub length: usize,
    /// The first of the waiters, in their order.
    pub waiters: Vec<WaiterView>,
    /// The ms left of the grace, during which no lock gets a new holder; 0 if none runs.
    pub grace_left_ms: i64,
}

pub struct WaiterView {
    /// The holder's name, and the ticket's if it waits by a ticket.
    pub names: Names,
    pub side: Side,
    /// The beginning of its session's name, if it waits by a ticket.
    pub session: Option<Vec<u8>>,
    /// Whether it can be notified.
    pub is_attended: bool,
    /// The blocked client, or the one that its session was last seen with, if it is still connected.
    pub client: Option<u64>,
    /// The client's address, as CLIENT LIST says it.
    pub address: Option<Vec<u8>>,
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
    /// For how many locks it waits.
    pub locks: usize,
}

/// The waiters of this lock, at most `limit` of them.
///
/// # Errors
/// If the engine is at work.
pub fn queue(context: &Context, key: Str<'_>, limit: usize) -> Result<QueueView, Error> {
    let lock = LockName { database: context.database(), key: key.bytes() };
    let mut queue = {
        let engine = state::engine()?;
        let waiters =
            engine.queue(lock, context.now()).take(limit).map(|Queued { wish, recipient, since, deadline, locks }| {
                let (session, is_attended, client) = match recipient {
                    SeenRecipient::Client(client) => (None, true, Some(client.number())),
                    SeenRecipient::Session(SessionSummary { name, connection, is_attended, .. }) => {
                        (Some(beginning(&name).to_vec()), is_attended, connection)
                    }
                };
                let (names, side) = (wish.holder, wish.side);
                WaiterView { names, side, session, is_attended, client, address: None, since, deadline, locks }
            });
        let grace_left_ms = engine.grace_left_ms(SETTINGS.grace.get_ms(), steady_ms());
        QueueView { length: engine.queues().length_of(lock), waiters: waiters.collect(), grace_left_ms }
    };
    let addresses = Addresses::new(context);
    for waiter in &mut queue.waiters {
        waiter.address = waiter.client.and_then(|client| addresses.of(client));
    }
    Ok(queue)
}

/// The locks of this database that have waiters and that the user may read, the longest queue first; at most `limit` of
/// them.
///
/// # Errors
/// If the call has no user.
pub fn queues(context: &Context, limit: usize) -> Result<Vec<QueueSummary>, Error> {
    let reader = Reader::of(context)?;
    // The check of a right calls no callback.
    let may_read = |key: &[u8]| reader.may_read(key);
    Ok(state::engine()?.queues().to_be_shown(context.database(), limit, may_read).collect())
}

/// The beginning of a session's name. The whole name is not shown, since with it a client can cancel the session's tickets.
#[must_use]
pub fn beginning(session: &[u8]) -> &[u8] {
    session.get(..SESSION_SHOWN).unwrap_or_default()
}

/// A session, and the address that it was last seen from.
pub struct SessionView {
    pub summary: SessionSummary,
    pub address: Option<Vec<u8>>,
}

/// The largest sessions, at most `limit` of them.
///
/// # Errors
/// If the user may not see all of them.
pub fn sessions(context: &Context, limit: usize) -> Result<Vec<SessionView>, Error> {
    check_sees_all(context)?;
    let shown = state::engine()?.sessions_to_be_shown(limit, context.now());
    let addresses = Addresses::new(context);
    let view = |summary: SessionSummary| {
        let address = summary.connection.and_then(|client| addresses.of(client));
        SessionView { summary, address }
    };
    Ok(shown.into_iter().map(view).collect())
}
