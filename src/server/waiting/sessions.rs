//! Sessions: processes that wait by tickets, and the calls by which they are told.
//!
//! A session's call is a blocked client like one that waits for a lock, but its answer is looked up when it is written:
//! so one answer tells of everything that has happened until then, be it one grant or a thousand.

use super::blocked_client::BlockedClient;
use super::host::Server;
use super::state::Blocked;
use super::turn::monotonic_us;
use super::{callbacks, fitness, state};
use crate::server::edge::{ErrorLine, Reply, Writer, reply, rights, settings};
use crate::server::ffi::api::flag;
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use rlock_core::waiting::serve;
use rlock_core::waiting::{Call, NoSession, Room, SessionId};

/// The most bytes of events in one answer; the next call gets the others. The server closes the connection of a client
/// that leaves more unread than `client-output-buffer-limit` allows, and what was in one answer once is so again on the
/// next connection.
const TOLD_BYTES_MAX: usize = 96 * 1_024;

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
    let began_us = monotonic_us();
    let owner = rights::user_name(context)?;
    callbacks::listen_to_clients(context);
    let EventsCall { acknowledged, wait_ms, ttl_ms } = asked;
    let now = context.now();
    let has_memory = !fitness::is_out_of_memory(context);
    let room = Room { all: settings::max_sessions(), of_user: settings::max_sessions_per_user(), has_memory };
    let call = Call { connection: connection(context), acknowledged, ttl_ms };
    let called = state::with(|table| table.call(name.bytes(), owner.lend().bytes(), call, room, now));
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
    if !waits.is_some_and(|limit_ms| wait(context, session, limit_ms, began_us)) {
        write_news(context, session, began_us);
    }
    callbacks::arm_timer(context);
    Ok(())
}

/// Returns whether the client can be blocked.
fn wait(context: &Context, session: SessionId, limit_ms: i64, began_us: u64) -> bool {
    let Some(client) = BlockedClient::block(context, &callbacks::OF_CLIENT) else { return false };
    let (key, now) = (client.key(), context.now());
    state::with_all(|state| {
        state.blocked.insert(key, Blocked::ForEvents { session, began_us, is_woken: false });
        state.table.wait_for_events(session, client, limit_ms, now);
    });
    true
}

/// The client's number. A script has none of its own, and what it asks is no word from a connection.
fn connection(context: &Context) -> Option<u64> {
    (context.flags() & flag::IN_SCRIPT == 0).then(|| context.client())
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
pub(super) fn send_news(context: &Context, session: SessionId, began_us: u64) {
    let client = context.client();
    if state::with(|table| table.connection_of(session)) == Some(client) {
        write_news(context, session, began_us);
    } else {
        Writer::new(context).array(0);
        state::with(|table| table.cut_off_is_answered(session, client));
        callbacks::arm_timer(context);
    }
}

fn write_news(context: &Context, session: SessionId, began_us: u64) {
    let news = state::with(|table| table.take_news(session, TOLD_BYTES_MAX));
    let waited_ms = i64::try_from(monotonic_us().saturating_sub(began_us) / 1_000).unwrap_or(i64::MAX);
    let now = context.now();
    let writer = Writer::new(context).array(news.len());
    for event in &news {
        let ends_in = event.left_ms(now).map(|left| if left > 0 { waited_ms.saturating_add(left) } else { 0 });
        writer.array(if ends_in.is_some() { 5 } else { 4 });
        writer.number(i64::try_from(event.seq).unwrap_or(i64::MAX)).bytes(event.names.ticket());
        reply::write_event(writer, event.outcome);
        if let Some(ends_in) = ends_in {
            writer.number(ends_in);
        }
    }
}

/// Takes tickets back, or ends the session if none are named. Replies how many were found: later, if that takes longer
/// than a turn and the client can be blocked for it.
///
/// # Errors
/// The error reply.
pub fn cancel(context: &Context, name: Str<'_>, tickets: &[Str<'_>]) -> Result<Reply, ErrorLine> {
    let session = find(context, name)?;
    let server = Server::new(context);
    let mut left = tickets.iter().map(|ticket| ticket.bytes());
    let mut found = match tickets {
        [] => serve::close_session(&server, session),
        _ => serve::cancel(&server, session, &mut left),
    };
    let blocks = left.len() > 0 && context.may_block();
    let client = blocks.then(|| BlockedClient::block(context, &callbacks::OF_CLIENT)).flatten();
    let reply = if let Some(client) = client {
        state::with_all(|state| {
            state.blocked.insert(client.key(), Blocked::Cancelling);
            state.table.cancel_rest(session, left.map(Box::from).collect(), found, client);
        });
        Reply::Later
    } else {
        while left.len() > 0 {
            found = found.saturating_add(serve::cancel(&server, session, &mut left));
        }
        Reply::count(found)
    };
    callbacks::arm_timer(context);
    Ok(reply)
}

/// Ends the session with this number, whoever's it is, as if its time were up: what is left of it goes by and by. So
/// nothing is written here, and it is no write. Returns whether there was one.
///
/// # Errors
/// If the user may not see all sessions.
pub fn end(context: &Context, number: u64) -> Result<bool, ErrorLine> {
    rights::check_sees_all(context)?;
    let Some(session) = state::with(|table| table.session_numbered(number)) else { return Ok(false) };
    serve::end_session(&Server::new(context), session);
    callbacks::arm_timer(context);
    Ok(true)
}

fn no_session(why: NoSession) -> ErrorLine {
    match why {
        NoSession::Unknown | NoSession::TakenOver => NO_SESSION,
        NoSession::AnotherWaits => ANOTHER_WAITS,
        NoSession::TooMany => TOO_MANY,
        NoSession::TooManyOfUser => TOO_MANY_OF_USER,
        NoSession::NoMemory => NO_MEMORY,
        NoSession::NeverTold => NEVER_TOLD,
    }
}

const NO_SESSION: ErrorLine =
    ErrorLine(c"NOSESSION no session of this name is open for this user: open one by RLOCK.EVENTS without ACK");

const ANOTHER_WAITS: ErrorLine = ErrorLine(
    c"TAKENOVER a newer connection has taken this session over, and waits for its events: one session is for one process",
);

const TOO_MANY: ErrorLine = ErrorLine(c"QUEUEFULL as many sessions are open as rlock.max-sessions allows");

const TOO_MANY_OF_USER: ErrorLine = ErrorLine(
    c"QUEUEFULL as many sessions of this user are open as rlock.max-sessions-per-user allows, or nine tenths of rlock.max-sessions",
);

const NO_MEMORY: ErrorLine = ErrorLine(c"OOM no session is opened while the server has reached its maxmemory");

const NEVER_TOLD: ErrorLine = ErrorLine(c"ERR ACK must be at most the number of the last event that was told");
