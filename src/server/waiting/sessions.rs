//! Sessions: processes that wait by tickets, and the calls by which they are told.
//!
//! A session's call is a blocked client like one that waits for a lock, but its answer is looked up when it is written:
//! so one answer tells of everything that has happened until then, be it one grant or a thousand.

use super::blocked_client::BlockedClient;
use super::host::Server;
use super::state::Blocked;
use super::{callbacks, state};
use crate::server::edge::{ErrorLine, Writer, reply, rights, settings};
use crate::server::ffi::api::{api, flag};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use crate::waiting::serve;
use crate::waiting::{Call, NoSession, SessionId};

/// The most events in one answer, since it is written at once. The next call gets the others.
const EVENTS_TOLD_MAX: usize = 10_000;

/// A call for events, as the command says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsCall {
    pub acknowledged: Option<u64>,
    /// 0 means for as long as a call may wait.
    pub wait_ms: Option<i64>,
    pub ttl_ms: Option<i64>,
}

/// The session of this name, if it is open and its user's who asks.
///
/// # Errors
/// The error reply.
pub(super) fn find(context: &Context, name: Str<'_>) -> Result<SessionId, ErrorLine> {
    let owner = rights::user_name(context)?;
    state::with(|table| table.session(name.bytes(), owner.lend().bytes())).map_err(no_session)
}

/// A call for events. Writes the answer, unless the client waits: then it gets its answer later.
///
/// # Errors
/// The error reply.
pub fn events(context: &Context, name: Str<'_>, asked: EventsCall) -> Result<(), ErrorLine> {
    let owner = rights::user_name(context)?;
    callbacks::listen_to_clients(context);
    let EventsCall { acknowledged, wait_ms, ttl_ms } = asked;
    let (now, limit) = (context.now(), settings::max_sessions());
    let call = Call { connection: connection(context), acknowledged, ttl_ms };
    let called = state::with(|table| table.call(name.bytes(), owner.lend().bytes(), call, limit, now));
    let (session, former) = match called {
        Err(NoSession::TakenOver) => {
            Writer::new(context).array(0);
            return Ok(());
        }
        called => called.map_err(no_session)?,
    };
    if let Some(former) = former {
        wake(former);
    }
    let has_news = state::with(|table| table.has_news(session));
    let waits = wait_ms.filter(|_| !has_news && context.may_block());
    if !waits.is_some_and(|limit_ms| wait(context, session, limit_ms)) {
        write_news(context, session);
    }
    callbacks::arm_timer(context);
    Ok(())
}

/// Returns whether the client can be blocked.
fn wait(context: &Context, session: SessionId, limit_ms: i64) -> bool {
    let Some(client) = BlockedClient::block(context, &callbacks::OF_CLIENT) else { return false };
    let (key, now) = (client.key(), context.now());
    state::with_all(|state| {
        state.blocked.insert(key, Blocked::ForEvents { session, is_woken: false });
        state.table.wait_for_events(session, client, limit_ms, now);
    });
    true
}

/// The client's number. A script has none of its own, and what it asks is no word from a connection.
fn connection(context: &Context) -> Option<u64> {
    // SAFETY: the context is alive.
    let client = unsafe { api!(RedisModule_GetClientId(context.as_ptr())) };
    (context.flags() & flag::IN_SCRIPT == 0).then_some(client)
}

/// Has a call answered, before the server sleeps the next time.
pub(super) fn wake(call: BlockedClient) {
    let key = call.key();
    state::with_all(|state| {
        if let Some(Blocked::ForEvents { is_woken, .. }) = state.blocked.get_mut(&key) {
            *is_woken = true;
        }
    });
    call.wake();
}

/// Takes back the call that waits.
pub(super) fn stop_waiting(context: &Context, session: SessionId) -> Option<BlockedClient> {
    let now = context.now();
    state::with(|table| table.stop_waiting_for_events(session, now))
}

/// Writes what the client of this callback is told: nothing, if another connection has taken over.
pub(super) fn send_news(context: &Context, session: SessionId) {
    // SAFETY: the context is that of a blocked client.
    let client = unsafe { api!(RedisModule_GetClientId(context.as_ptr())) };
    if state::with(|table| table.connection_of(session)) == Some(client) {
        write_news(context, session);
    } else {
        Writer::new(context).array(0);
    }
}

fn write_news(context: &Context, session: SessionId) {
    let news = state::with(|table| table.take_news(session, EVENTS_TOLD_MAX));
    let writer = Writer::new(context).array(news.len());
    for event in &news {
        writer.array(4).number(i64::try_from(event.seq).unwrap_or(i64::MAX)).bytes(event.names.ticket());
        reply::write_event(writer, event.outcome);
    }
}

/// Takes tickets back, or ends the session if none are named. Returns how many were found.
///
/// # Errors
/// The error reply.
pub fn cancel(context: &Context, name: Str<'_>, tickets: &[Str<'_>]) -> Result<usize, ErrorLine> {
    let session = find(context, name)?;
    let server = Server::new(context);
    let found = if tickets.is_empty() {
        serve::close_session(&server, session)
    } else {
        tickets.iter().filter(|ticket| serve::cancel(&server, session, ticket.bytes())).count()
    };
    callbacks::arm_timer(context);
    Ok(found)
}

fn no_session(why: NoSession) -> ErrorLine {
    match why {
        NoSession::Unknown | NoSession::TakenOver => NO_SESSION,
        NoSession::TooMany => TOO_MANY,
        NoSession::NeverTold => NEVER_TOLD,
    }
}

const NO_SESSION: ErrorLine =
    ErrorLine(c"NOSESSION no session of this name is open for this user: open one by RLOCK.EVENTS without ACK");

const TOO_MANY: ErrorLine = ErrorLine(c"QUEUEFULL as many sessions are open as rlock.max-sessions allows");

const NEVER_TOLD: ErrorLine = ErrorLine(c"ERR ACK must be at most the number of the last event that was told");
