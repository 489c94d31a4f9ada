//! What is known of one lock at one moment.

use super::ask;
use super::fields::Fields;
use crate::error::Error;
use crate::kind::Kind;
use crate::link::Fault;
use crate::link::request::not_an_answer;
use crate::locks::Locks;
use redis::Value;
use std::time::Duration;

/// A lock at one moment, as [`Locks::inspect`](crate::Locks::inspect) tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Which kind of lock, if somebody holds it.
    pub kind: Option<Kind>,
    /// What is left of the lease; `None` without one, or if nobody holds it.
    pub time_left: Option<Duration>,
    /// How many hold it. A holder with both sides of a read-write lock counts for two.
    pub holder_count: usize,
    /// The first of them.
    pub holders: Vec<Holder>,
    /// The last fencing token that was given, if any was.
    pub fencing_token: Option<u64>,
    /// How many wait.
    pub waiter_count: usize,
    /// The first of them, in the order in which they will get it.
    pub waiters: Vec<Waiter>,
}

/// What one side of a lock is held or waited for as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldSide {
    /// A plain lock.
    Exclusive,
    /// The side that any number of readers have at the same time.
    Read,
    /// The side that one writer has alone.
    Write,
}

/// One holder of a lock, or of one side of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Any bytes.
    pub holder: Vec<u8>,
    /// Which side it has.
    pub side: HoldSide,
    /// How often it has taken it.
    pub count: u64,
    /// What is left of its own lease; `None` if there is none, or if the server did not look.
    pub time_left: Option<Duration>,
}

/// One wait: a client that the server has blocked, or a ticket of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Any bytes.
    pub holder: Vec<u8>,
    /// Which side it wants.
    pub side: HoldSide,
    /// Its connection's id, as in `CLIENT LIST`; of a session that of its last connection. `None` if that is closed.
    pub client_id: Option<u64>,
    /// Where it is connected from, if the server can tell.
    pub address: Option<String>,
    /// The first bytes of the name of the session that waits by a ticket. `None`: a client that is blocked.
    pub session: Option<Vec<u8>>,
    /// The ticket, as that session has named it; any bytes.
    pub ticket: Option<Vec<u8>>,
    /// Whether it would be granted the lock if its turn came now. A session that reads no events is passed over, and
    /// keeps its place until it ends.
    pub attended: bool,
    /// For how long it has been waiting.
    pub waited: Duration,
    /// When it gives up; `None`: never.
    pub gives_up_in: Option<Duration>,
}

impl Locks {
    /// Who holds this lock, since when each waiter waits for it, and how long all of it lasts. Of the holders and of
    /// the waiters at most `count` are told (1 to 10,000); how many there are is told whole.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if nobody answers,
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the key holds something that is no lock (`WRONGTYPE`), or
    /// the user may not read it (`NOPERM`).
    pub async fn inspect(&self, name: impl AsRef<[u8]>, count: usize) -> Result<Inspection, Error> {
        let name = name.as_ref();
        let command = redis::cmd("RLOCK.INSPECT").arg(name).arg("COUNT").arg(count).clone();
        let answer = ask::read(&self.shared, name, &command).await;
        answer.and_then(Inspection::read).map_err(|fault| fault.into_error(name))
    }
}

impl Inspection {
    pub(super) fn read(value: Value) -> Result<Self, Fault> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            kind: kind(&fields.take::<String>("kind")?)?,
            time_left: fields.take_time("ttl-ms")?,
            holder_count: fields.take("holder-count")?,
            holders: fields.take_list("holders", Holder::read)?,
            fencing_token: fields.take("fencing-token")?,
            waiter_count: fields.take("waiter-count")?,
            waiters: fields.take_list("waiters", Waiter::read)?,
        })
    }
}

impl Holder {
    fn read(mut fields: Fields) -> Result<Self, Fault> {
        Ok(Self {
            holder: fields.take("holder")?,
            side: side(&fields.take::<String>("side")?)?,
            count: fields.take("count")?,
            time_left: fields.take_time("ttl-ms")?,
        })
    }
}

impl Waiter {
    fn read(mut fields: Fields) -> Result<Self, Fault> {
        Ok(Self {
            holder: fields.take("holder")?,
            side: side(&fields.take::<String>("side")?)?,
            client_id: fields.take("client-id")?,
            address: fields.take("address")?,
            session: fields.take("session")?,
            ticket: fields.take("ticket")?,
            // An older module knows none but clients that it has blocked.
            attended: fields.take::<Option<bool>>("attended")?.unwrap_or(true),
            waited: fields.take_time("waited-ms")?.unwrap_or_default(),
            gives_up_in: fields.take_time("deadline-in-ms")?,
        })
    }
}

fn kind(word: &str) -> Result<Option<Kind>, Fault> {
    match word {
        "none" => Ok(None),
        "plain" => Ok(Some(Kind::Plain)),
        "read-write" => Ok(Some(Kind::ReadWrite)),
        _ => Err(not_an_answer()),
    }
}

fn side(word: &str) -> Result<HoldSide, Fault> {
    match word {
        "exclusive" => Ok(HoldSide::Exclusive),
        "read" => Ok(HoldSide::Read),
        "write" => Ok(HoldSide::Write),
        _ => Err(not_an_answer()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn waiter(more: &[(&str, Value)]) -> Waiter {
        let known = [("holder", text("ann")), ("side", text("write")), ("waited-ms", Value::Int(5))];
        let pairs = known.iter().chain(more).map(|(name, value)| (text(name), value.clone()));
        Waiter::read(Fields::of(Value::Map(pairs.collect())).unwrap()).unwrap()
    }

    #[test]
    fn a_session_without_a_connection_waits_by_its_tickets() {
        let gone = [("client-id", Value::Nil), ("address", Value::Nil), ("attended", Value::Int(0))];
        let named = [("session", text("5d0f3f0e")), ("ticket", Value::BulkString(b"\xff7".to_vec()))];
        let seen = waiter(&[&gone[..], &named[..]].concat());
        assert_eq!((seen.client_id, seen.address, seen.attended), (None, None, false));
        assert_eq!((seen.session, seen.ticket), (Some(b"5d0f3f0e".to_vec()), Some(b"\xff7".to_vec())));
    }

    #[test]
    fn a_module_that_knows_no_sessions_is_understood() {
        let seen = waiter(&[("client-id", Value::Int(7)), ("address", text("10.0.0.7:50112"))]);
        assert_eq!((seen.client_id, seen.address.as_deref()), (Some(7), Some("10.0.0.7:50112")));
        assert_eq!((seen.session, seen.ticket, seen.attended), (None, None, true));
    }
}
