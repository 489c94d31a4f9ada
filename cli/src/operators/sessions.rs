//! All clients' sessions, which wait by tickets.

use super::ask;
use super::fields::{Fields, list};
use super::unanswered::Unanswered;
use rlock_client::{Master, Reply};
use std::cmp::Reverse;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server that has the session. Each server numbers its own sessions.
    pub server: String,
    pub id: u64,
    /// The first bytes of its name.
    pub name: Vec<u8>,
    pub user: Option<Vec<u8>>,
    /// The id of its last connection; `None` if that is closed.
    pub client_id: Option<u64>,
    pub address: Option<String>,
    /// Whether its tickets would be granted a lock now.
    pub attended: bool,
    /// Tickets that wait.
    pub tickets: u64,
    /// Events that are not acknowledged.
    pub events: u64,
    /// When it ends if no further call comes.
    pub ends_in: Option<Duration>,
    /// The memory that it takes.
    pub bytes: Option<u64>,
}

/// Sessions with the most tickets and events first, at most `count` (1 to 10,000).
pub async fn sessions(masters: &[Master], count: usize) -> Result<Vec<Session>, Unanswered> {
    let answers = ask::of_each(masters, &["RLOCK.SESSIONS", "COUNT", &count.to_string()]).await?;
    let read = |(master, answer): (Master, Reply)| list(answer, |fields| Session::read(master.address(), fields));
    let sessions = answers.into_iter().map(read).collect::<Option<Vec<_>>>();
    let mut sessions = sessions.ok_or(Unanswered::Nonsense)?.concat();
    sessions.sort_by_key(|session| Reverse(session.tickets + session.events));
    sessions.truncate(count);
    Ok(sessions)
}

/// Ends the session, which cancels all its tickets. Returns whether there was a session of this number.
pub async fn end_session(master: &Master, id: u64) -> Result<bool, Unanswered> {
    match ask::of_master(master, &[b"RLOCK.SESSIONS".as_slice(), b"END", id.to_string().as_bytes()]).await? {
        Reply::Int(ended) => Ok(ended != 0),
        _ => Err(Unanswered::Nonsense),
    }
}

impl Session {
    fn read(server: &str, mut fields: Fields) -> Option<Self> {
        Some(Self {
            server: server.to_owned(),
            id: fields.number("id")?,
            name: fields.bytes("session")?,
            user: fields.bytes("user"),
            client_id: fields.number("client-id"),
            address: fields.text("address"),
            attended: fields.number("attended")? != 0,
            tickets: fields.number("tickets")?,
            events: fields.number("events")?,
            ends_in: fields.time("ends-in-ms"),
            bytes: fields.number("bytes"),
        })
    }
}
