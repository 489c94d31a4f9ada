//! ```text
//! RLOCK.SESSIONS [COUNT n]
//! RLOCK.SESSIONS END id
//! ```
//! For people on call: the sessions of all users, and the end of one that should not be there.
//!
//! No write: what the end of a session gives back is written later, where the server lets it. So both also work on a
//! replica.

use super::arguments::count_option;
use crate::server::waiting::{self, SessionView};
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, Writer, latency};
use rlock_core::lock::{UnixMs, decimal};

/// RLOCK.SESSIONS
pub struct Sessions;

impl Command for Sessions {
    const SPEC: Spec = Spec {
        name: c"rlock.sessions",
        summary: c"Lists the sessions of all users, those with the most tickets and events first; or ends one.",
        complexity: c"O(N) with N the number of sessions, and O(M log M) with M the number of those shown (COUNT: 1 to 10000, 100 by default; at most 1000)",
        // Not in scripts, where nobody can know whose rights count.
        flags: c"admin deny-script allow-stale",
        audience: Audience::Operators,
        key: KeyUse::NoKey,
        arguments: &["[COUNT count]", "[END id]"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let limit = match parse(arguments)? {
            Request::List(limit) => limit,
            Request::End(number) => return waiting::end(context, number).map(|ended| Reply::Number(i64::from(ended))),
        };
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

#[derive(Debug, PartialEq, Eq)]
enum Request {
    /// So many at most.
    List(usize),
    /// The one with this number.
    End(u64),
}

fn parse<A: AsRef<[u8]>>(arguments: &[A]) -> Result<Request, ErrorLine> {
    let options = arguments.get(1..).unwrap_or_default();
    match options {
        [word, rest @ ..] if word.as_ref().eq_ignore_ascii_case(b"END") => {
            let [id] = rest else { return Err(if rest.is_empty() { ID } else { OPTION }) };
            let number = decimal(id.as_ref()).and_then(|id| u64::try_from(id).ok());
            number.map(Request::End).ok_or(ID)
        }
        _ => count_option(options, OPTION).map(|count| Request::List(count.min(LISTED_MAX))),
    }
}

/// The most sessions that are listed, whatever COUNT is: more would take longer than a turn of the server.
const LISTED_MAX: usize = 1_000;

const ID: ErrorLine = ErrorLine(c"ERR END must be followed by a session's id, as RLOCK.SESSIONS lists it");

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: the options are COUNT n or END id");

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::COUNT;

    #[test]
    fn a_list_or_an_end() {
        assert_eq!(parse(&[&b"_"[..]]), Ok(Request::List(100)));
        assert_eq!(parse(&[&b"_"[..], b"count", b"3"]), Ok(Request::List(3)));
        assert_eq!(parse(&[&b"_"[..], b"End", b"12"]), Ok(Request::End(12)));
        assert_eq!(parse(&[&b"_"[..], b"COUNT", b"0"]), Err(COUNT));
        for wrong in [&b"-1"[..], b"", b"x", b"9223372036854775808"] {
            assert_eq!(parse(&[&b"_"[..], b"END", wrong]), Err(ID));
        }
        assert_eq!(parse(&[&b"_"[..], b"END"]), Err(ID));
        for wrong in [&[&b"END"[..], b"1", b"COUNT", b"1"][..], &[b"COUNT", b"1", b"END", b"1"], &[b"k"]] {
            assert_eq!(parse(&[&[&b"_"[..]], wrong].concat()), Err(OPTION));
        }
    }
}
