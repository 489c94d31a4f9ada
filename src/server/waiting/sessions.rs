//! Sessions: processes that wait by tickets, and the calls by which they get events.
//!
//! A session's call is a blocked client like one that waits for a lock, but its events are looked up only when the reply is
//! written: so one reply has everything that has happened until then, one grant or a thousand.

use super::host::Server;
use super::{callbacks, state, telling};
use crate::server::edge::{Reply, Writer, users};
use crate::server::ffi::api::flag;
use crate::server::ffi::context::{Context, monotonic_us};
use crate::server::ffi::string::Str;
use rlock_core::waiting::commands::Polled;
use rlock_core::waiting::{Call, Cancelled, SessionId, TicketNames};
use rlock_core::words::Error;

/// The arguments of a call for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsCall {
    pub acknowledged: Option<u64>,
    /// 0 means for as long as a call may wait.
    pub wait_ms: Option<i64>,
    pub ttl_ms: Option<i64>,
}

/// The session of this name, if it is open and belongs to the caller's user.
///
/// # Errors
/// The error reply.
pub(super) fn find(context: &Context, name: Str<'_>) -> Result<SessionId, Error> {
    let owner = users::user_name(context)?;
    Ok(state::engine()?.session(name.bytes(), owner.lend().bytes())?)
}

/// A call for events. Writes the answer, unless the client waits: then it gets its answer later.
///
/// # Errors
/// The error reply.
pub fn events(context: &Context, name: Str<'_>, asked: EventsCall) -> Result<(), Error> {
    let owner = users::user_name(context)?;
    callbacks::listen_to_clients(context);
    let EventsCall { acknowledged, wait_ms, ttl_ms } = asked;
    let call = Call { connection: connection(context), acknowledged, ttl_ms };
    let polled = state::engine()?.poll(&Server::new(context), name.bytes(), owner.lend().bytes(), call, wait_ms);
    match polled? {
        Polled::Answered(session) => telling::write_news(context, session, monotonic_us()),
        Polled::Waits(_) => {}
        Polled::TakenOver => _ = Writer::new(context).array(0),
    }
    callbacks::arm_timer(context);
    Ok(())
}

/// The client's number. None for a script, which has no connection of its own.
fn connection(context: &Context) -> Option<u64> {
    (context.flags() & flag::IN_SCRIPT == 0).then(|| context.client())
}

/// Withdraws tickets, or ends the session if none are named. Replies what became of each, or how many waited. If that takes
/// longer than a turn, and the client can be blocked, the reply comes later.
///
/// # Errors
/// The error reply.
pub fn cancel(context: &Context, name: Str<'_>, tickets: TicketNames) -> Result<Reply, Error> {
    let session = find(context, name)?;
    let server = Server::new(context);
    let reply = if tickets.is_empty() {
        Reply::count(state::engine()?.close_session(&server, session))
    } else {
        state::engine()?.cancel(&server, session, tickets)?.map_or(Reply::Later, cancelled)
    };
    callbacks::arm_timer(context);
    Ok(reply)
}

/// The reply to a CANCEL that names tickets.
pub(super) fn cancelled(tickets: Vec<Cancelled>) -> Reply {
    Reply::Numbers(tickets.into_iter().map(|ticket| ticket as i64).collect())
}

/// Ends the session with this number, of any user, as if its time were up: the rest of it is dropped in slices. So
/// nothing is written here, and the command is not a write. Returns whether there was such a session.
///
/// # Errors
/// If the user may not see all sessions.
pub fn end(context: &Context, number: u64) -> Result<bool, Error> {
    users::check_sees_all(context)?;
    let mut engine = state::engine()?;
    let Some(session) = engine.session_numbered(number) else { return Ok(false) };
    engine.end_session(&Server::new(context), session);
    drop(engine);
    callbacks::arm_timer(context);
    Ok(true)
}
