//! What is known of one lock at one moment.

use super::ask;
use super::fields::Fields;
use super::unanswered::Unanswered;
use rlock_client::{Kind, Locks, Reply};
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The kind of lock, if it is held.
    pub kind: Option<Kind>,
    /// The time until the lease ends; `None` without a lease, or if the lock is free.
    pub time_left: Option<Duration>,
    /// How many hold it. A holder with both sides of a read-write lock counts for two.
    pub holder_count: usize,
    /// The first of them.
    pub holders: Vec<Holder>,
    /// The last fencing token that was given, if any was.
    pub fencing_token: Option<u64>,
    /// The stored answer of `rlock once`, if there is one.
    pub answer: Option<Answer>,
    /// Whether the server knows the waiters: a replica does not, and reports none.
    pub knows_waiters: bool,
    /// How many wait.
    pub waiter_count: usize,
    /// The first of them, in the order in which they will get it.
    pub waiters: Vec<Waiter>,
    /// How long the server will grant nothing, because it was started or became a master. `None`: it grants.
    pub grace_left: Option<Duration>,
}

/// A stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub bytes: u64,
    /// `None`: it was made to stay, by PERSIST.
    pub time_left: Option<Duration>,
}

/// The side of a lock that a holder has, or that a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldSide {
    /// A plain lock.
    Exclusive,
    /// The side that any number of readers have at the same time.
    Read,
    /// The side that one writer has alone.
    Write,
    /// One of several permits.
    Permit,
}

/// One holder of a lock, or of one side of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Any bytes.
    pub holder: Vec<u8>,
    pub side: HoldSide,
    /// The number of its holds.
    pub count: u64,
    /// The time until its own lease ends; `None` if it has none, or if the server did not check.
    pub time_left: Option<Duration>,
}

/// One wait: a client that the server has blocked, or a ticket of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Any bytes.
    pub holder: Vec<u8>,
    pub side: HoldSide,
    /// The number of permits that this waiter's request names, if it waits for a permit.
    pub limit: Option<u64>,
    /// How many locks it waits for at once, if it is more than this one.
    pub keys: Option<u64>,
    /// The id of its connection, or of its session's last connection, as in `CLIENT LIST`. `None` if that is closed.
    pub client_id: Option<u64>,
    /// Its client's address, if the server reports it.
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

/// A lock's holders, the waiting time of each waiter, and the remaining times. At most `count` holders and waiters are
/// returned (1 to 10,000), with their total numbers.
pub async fn inspect(locks: &Locks, key: &[u8], count: usize) -> Result<Inspection, Unanswered> {
    let count = count.to_string();
    let answer = ask::of_lock(locks, key, &[b"RLOCK.INSPECT", key, b"COUNT", count.as_bytes()]).await?;
    Inspection::read(answer).ok_or(Unanswered::Nonsense)
}

/// All at once, in no order.
pub async fn inspect_each(
    locks: &Locks,
    keys: impl IntoIterator<Item = Vec<u8>>,
    count: usize,
) -> Vec<(Vec<u8>, Result<Inspection, Unanswered>)> {
    let mut looks = JoinSet::new();
    for key in keys {
        let locks = locks.clone();
        looks.spawn(async move {
            let look = inspect(&locks, &key, count).await;
            (key, look)
        });
    }
    looks.join_all().await
}

/// Each with its first holder and its first waiter. A key that this user may not look at, or that is no lock, is left out.
pub async fn known(
    locks: &Locks,
    keys: impl IntoIterator<Item = Vec<u8>>,
) -> Result<HashMap<Vec<u8>, Inspection>, Unanswered> {
    let mut known = HashMap::new();
    for (key, look) in inspect_each(locks, keys, 1).await {
        match look {
            Ok(lock) => _ = known.insert(key, lock),
            Err(error) if error.is_unavailable() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(known)
}

impl Inspection {
    fn read(reply: Reply) -> Option<Self> {
        let mut fields = Fields::of(reply)?;
        Some(Self {
            kind: kind(&fields.text("kind")?)?,
            time_left: fields.time("ttl-ms"),
            holder_count: fields.count("holder-count")?,
            holders: fields.list("holders", Holder::read)?,
            fencing_token: fields.number("fencing-token"),
            answer: Answer::read(&mut fields),
            knows_waiters: true,
            waiter_count: fields.count("waiter-count")?,
            waiters: fields.list("waiters", Waiter::read)?,
            grace_left: fields.time("grace-left-ms").filter(|left| !left.is_zero()),
        })
    }
}

impl Answer {
    fn read(fields: &mut Fields) -> Option<Self> {
        Some(Self { bytes: fields.number("answer-bytes")?, time_left: fields.time("answer-ttl-ms") })
    }
}

impl Holder {
    fn read(mut fields: Fields) -> Option<Self> {
        Some(Self {
            holder: fields.bytes("holder")?,
            side: HoldSide::of(&fields.text("side")?)?,
            count: fields.number("count")?,
            time_left: fields.time("ttl-ms"),
        })
    }
}

impl Waiter {
    fn read(mut fields: Fields) -> Option<Self> {
        Some(Self {
            holder: fields.bytes("holder")?,
            side: HoldSide::of(&fields.text("side")?)?,
            limit: fields.number("limit"),
            keys: fields.number("keys").filter(|keys| *keys > 1),
            client_id: fields.number("client-id"),
            address: fields.text("address"),
            session: fields.bytes("session"),
            ticket: fields.bytes("ticket"),
            attended: fields.number("attended")? != 0,
            waited: fields.time("waited-ms").unwrap_or_default(),
            gives_up_in: fields.time("deadline-in-ms"),
        })
    }
}

fn kind(word: &str) -> Option<Option<Kind>> {
    match word {
        "none" => Some(None),
        "plain" => Some(Some(Kind::Plain)),
        "read-write" => Some(Some(Kind::ReadWrite)),
        "permits" => Some(Some(Kind::Permits)),
        _ => None,
    }
}

impl HoldSide {
    const ALL: [Self; 4] = [Self::Exclusive, Self::Read, Self::Write, Self::Permit];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|side| side.word() == word)
    }

    /// As the server calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    fn waiter(more: &[(&str, Reply)]) -> Waiter {
        let known = [("holder", text("ann")), ("side", text("write")), ("waited-ms", Reply::Int(5))];
        let pairs = known.iter().chain(more).flat_map(|(name, value)| [text(name), value.clone()]);
        Waiter::read(Fields::of(Reply::List(pairs.collect())).unwrap()).unwrap()
    }

    #[test]
    fn a_session_without_a_connection_waits_by_its_tickets() {
        let gone = [("client-id", Reply::Nil), ("address", Reply::Nil), ("attended", Reply::Int(0))];
        let named = [("session", text("5d0f3f0e")), ("ticket", Reply::Text(b"\xff7".to_vec()))];
        let seen = waiter(&[&gone[..], &named[..]].concat());
        assert_eq!((seen.client_id, seen.address, seen.attended), (None, None, false));
        assert_eq!((seen.session, seen.ticket), (Some(b"5d0f3f0e".to_vec()), Some(b"\xff7".to_vec())));
    }

    #[test]
    fn nonsense_is_no_lock() {
        let odd = Reply::List(vec![text("kind")]);
        for reply in [Reply::Nil, Reply::Int(1), odd, Reply::List(vec![text("kind"), text("none")])] {
            assert_eq!(Inspection::read(reply.clone()), None, "{reply:?}");
        }
    }
}
