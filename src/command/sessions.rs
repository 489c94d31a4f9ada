//! SESSIONS, for people on call: lists the sessions of all users, or ends one that should not be there.

use crate::server::waiting::{self, SessionView};
use crate::server::{Command, Context, Reply, Str, Writer, latency};
use rlock_core::lock::UnixMs;
use rlock_core::words::{self, Error, read};

/// RLOCK.SESSIONS
pub struct Sessions;

impl Command for Sessions {
    const WORDS: &'static words::Command = &words::SESSIONS;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        if let Some(id) = request.id {
            return waiting::end(context, id).map(|ended| Reply::Number(i64::from(ended)));
        }
        let limit = request.count().min(LISTED_MAX);
        let now = context.now();
        let sessions = waiting::list_sessions(context, limit)?;
        let writer = Writer::new(context).array(sessions.len());
        for session in &sessions {
            write(writer, session, now);
        }
        latency::since(context, c"rlock-sessions", now);
        Ok(Reply::Written)
    }
}

/// The maximum of listed sessions, whatever COUNT is: more would take longer than a turn of the server.
const LISTED_MAX: usize = 1_000;

fn write(writer: Writer<'_>, SessionView { summary: session, address }: &SessionView, now: UnixMs) {
    writer.map(10);
    writer.word(c"id").number(session.number);
    writer.word(c"session").bytes(waiting::beginning(&session.name));
    writer.word(c"user").bytes(&session.owner);
    writer.word(c"client-id").or_nil(session.connection, Writer::number);
    writer.word(c"address").or_nil(address.as_deref(), Writer::bytes);
    writer.word(c"attended").number(session.is_attended);
    writer.word(c"tickets").number(session.tickets);
    writer.word(c"events").number(session.events);
    writer.word(c"ends-in-ms").number(session.ends.saturating_sub(now).max(0));
    writer.word(c"bytes").number(session.bytes);
}
