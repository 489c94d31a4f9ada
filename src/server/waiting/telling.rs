//! How a session gets its events: those that there are when the reply is written, one grant or a thousand.

use super::host::Server;
use super::state;
use crate::server::edge::{Writer, reply};
use crate::server::ffi::context::{Context, monotonic_us};
use rlock_core::waiting::SessionId;

/// The maximum of bytes of events in one answer: a thousand grants with the longest tickets. The next call gets the others.
/// The server closes the connection of a client that leaves more unread than `client-output-buffer-limit` allows, and on the
/// next connection the same events would be in one answer again.
pub const EVENTS_BYTES_MAX: usize = 128 * 1_024;

/// Writes the events for the client of this callback: none, if another connection has taken over.
pub(super) fn send_news(context: &Context, session: SessionId, since_us: u64) {
    let client = context.client();
    let Ok(mut engine) = state::engine() else {
        Writer::new(context).array(0);
        return;
    };
    if engine.connection_of(session) == Some(client) {
        drop(engine);
        write_news(context, session, since_us);
    } else {
        Writer::new(context).array(0);
        engine.cut_off_is_answered(session, client);
    }
}

/// Writes a session's events now, to its call that has waited since `since_us`.
pub(super) fn write_news(context: &Context, session: SessionId, since_us: u64) {
    let server = Server::new(context);
    let news =
        state::engine().map_or_else(|_| Vec::new(), |mut engine| engine.take_news(&server, session, EVENTS_BYTES_MAX));
    let waited_ms = i64::try_from(monotonic_us().saturating_sub(since_us) / 1_000).unwrap_or(i64::MAX);
    let writer = Writer::new(context).array(news.len());
    for (event, left_ms) in &news {
        let ends_in = left_ms.map(|left| if left > 0 { waited_ms.saturating_add(left) } else { 0 });
        writer.array(if ends_in.is_some() { 5 } else { 4 });
        writer.number(i64::try_from(event.seq).unwrap_or(i64::MAX)).bytes(event.names.ticket());
        reply::write_event(writer, event.outcome, event.tokens());
        if let Some(ends_in) = ends_in {
            writer.number(ends_in);
        }
    }
}
