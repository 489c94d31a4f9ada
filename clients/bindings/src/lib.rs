//! What the clients for Python and Node.js share: a client's settings, a lock and its terms as plain values, since those
//! languages have no types for them; and one word for each kind of failure.
//!
//! Everything else is in [`rlock_client`]. Nothing here knows of an interpreter.

use rlock_client::{Access, Begun, Certificates, Error, ErrorKind, Guard, Identity, Lock, Locks, Reply, Unfenced};
use std::pin::Pin;
use std::time::Duration;

/// Where the locks are, and how they are reached.
#[derive(Clone, Debug)]
pub enum Place {
    Server(String),
    Cluster(Vec<String>),
    Sentinels {
        addresses: Vec<String>,
        master: String,
        user: Option<String>,
        password: Option<String>,
        database: u64,
        tls: bool,
    },
}

/// The settings of a client. A setting that is not given has the default of [`rlock_client::Options`].
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub name: Option<String>,
    pub lease: Option<Duration>,
    pub patience: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub answer_timeout: Option<Duration>,
    /// As PEM, like the two below.
    pub authorities: Option<Vec<u8>>,
    pub certificate: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    /// Connects when the first request is made, and tries for that request's `wait` or the client's patience.
    pub lazily: bool,
}

impl Settings {
    /// # Errors
    /// Those of the client's own ways to connect.
    pub async fn connect(self, place: Place) -> Result<Locks, Error> {
        let mut options = Locks::options();
        if self.lazily {
            options = options.lazily();
        }
        if let Some(name) = self.name {
            options = options.name(name);
        }
        if let Some(lease) = self.lease {
            options = options.lease(lease);
        }
        if let Some(patience) = self.patience {
            options = options.patience(patience);
        }
        if let Some(limit) = self.connect_timeout {
            options = options.connect_timeout(limit);
        }
        if let Some(limit) = self.answer_timeout {
            options = options.answer_timeout(limit);
        }
        let identity = self.certificate.zip(self.key);
        if self.authorities.is_some() || identity.is_some() {
            let mut certificates = Certificates::default();
            certificates.authorities = self.authorities;
            certificates.identity = identity.map(|(certificate, key)| Identity { certificate, key });
            options = options.certificates(certificates);
        }
        match place {
            Place::Server(address) => options.connect_to(address.as_str()).await,
            Place::Cluster(nodes) => options.connect_to_cluster(nodes.iter().map(String::as_str)).await,
            Place::Sentinels { addresses, master, user, password, database, tls } => {
                let mut access = Access::default();
                (access.user, access.password, access.database, access.tls) = (user, password, database, tls);
                options.connect_to_sentinels(addresses.iter().map(String::as_str), master, access).await
            }
        }
    }
}

/// What to acquire.
#[derive(Clone, Debug)]
pub enum Wanted {
    Lock(Vec<u8>),
    Read(Vec<u8>),
    Write(Vec<u8>),
    Permit { name: Vec<u8>, limit: u32 },
    All(Vec<Vec<u8>>),
}

/// How to acquire it.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// How long it may take. Zero: try once. None: forever.
    pub wait: Option<Duration>,
    /// None: the client's lease.
    pub lease: Option<Duration>,
    /// The lease, if one is given, is not renewed.
    pub fixed: bool,
    pub fenced: bool,
    /// For a single lock only.
    pub owner: Option<Vec<u8>>,
    pub max_waiters: Option<u32>,
    /// How many replicas have to confirm it, and within what time.
    pub replicas: Option<(usize, Duration)>,
}

/// A hold, and its fencing tokens if it is fenced: one, or one for each of several locks.
#[derive(Debug)]
pub struct Held {
    pub guard: Guard,
    pub tokens: Vec<u64>,
}

/// Acquires what is wanted. If it was not free in time, that is an error, too.
///
/// # Cancel safety
/// If the future is dropped, neither a waiter nor a hold stays behind.
///
/// # Errors
/// As [`Lock::acquire_timeout`].
pub async fn acquire(locks: Locks, wanted: Wanted, terms: Terms) -> Result<Held, Error> {
    let of_owner = |lock: Lock| match &terms.owner {
        Some(owner) => lock.owner(owner),
        None => lock,
    };
    match wanted {
        Wanted::Lock(name) => held(of_owner(locks.lock(name)), &terms).await,
        Wanted::Read(name) => held(of_owner(locks.read_write(name).read()), &terms).await,
        Wanted::Write(name) => held(of_owner(locks.read_write(name).write()), &terms).await,
        Wanted::Permit { name, limit } => held(locks.permits(name, limit), &terms).await,
        Wanted::All(names) => held(locks.all(names), &terms).await,
    }
}

/// Detaches the hold: another process can adopt it within that time, by default within a whole lease.
///
/// # Errors
/// As [`Guard::detach_within`].
pub fn detach(
    guard: &Guard,
    within: Option<Duration>,
) -> Pin<Box<dyn Future<Output = Result<String, Error>> + Send + 'static>> {
    match within {
        Some(within) => Box::pin(guard.detach_within(within)),
        None => Box::pin(guard.detach()),
    }
}

/// Adopts a hold that another process has [detached](Guard::detach).
///
/// # Cancel safety
/// If the future is dropped, the lock stays as it is until its lease ends.
///
/// # Errors
/// As [`Locks::adopt`].
pub async fn adopt(locks: Locks, text: Vec<u8>) -> Result<Held, Error> {
    let guard = locks.adopt(text).await?;
    let tokens = guard.tokens().to_vec();
    Ok(Held { guard: guard.unfenced(), tokens })
}

/// A request for an answer.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub key: Vec<u8>,
    /// For how long the answer is kept.
    pub keep: Duration,
    /// How long it may take. Zero: try once. None: forever.
    pub wait: Option<Duration>,
    /// None: the client's lease.
    pub lease: Option<Duration>,
    pub max_waiters: Option<u32>,
}

/// The answer, or the lead. A leader does the work, then calls [`Lead::answer`](rlock_client::Lead::answer) or
/// [`Lead::give_up`](rlock_client::Lead::give_up).
///
/// # Cancel safety
/// If the future is dropped, neither a waiter nor a hold stays behind.
///
/// # Errors
/// As [`Once::begin`](rlock_client::Once::begin).
pub async fn once(locks: Locks, asked: Asked) -> Result<Begun, Error> {
    let mut once = locks.once(asked.key, asked.keep);
    if let Some(limit) = asked.wait {
        once = once.wait(limit);
    }
    if let Some(lease) = asked.lease {
        once = once.lease(lease);
    }
    if let Some(count) = asked.max_waiters {
        once = once.max_waiters(count);
    }
    once.begin().await
}

async fn held<K>(mut lock: Lock<Unfenced, K>, terms: &Terms) -> Result<Held, Error> {
    if let Some(lease) = terms.lease {
        lock = if terms.fixed { lock.fixed_lease(lease) } else { lock.lease(lease) };
    }
    if let Some(count) = terms.max_waiters {
        lock = lock.max_waiters(count);
    }
    if let Some((wanted, within)) = terms.replicas {
        lock = lock.replicas(wanted, within);
    }
    if terms.fenced {
        let guard = waited(lock.fenced(), terms.wait).await?;
        let tokens = guard.tokens().collect();
        return Ok(Held { guard: guard.unfenced(), tokens });
    }
    Ok(Held { guard: waited(lock, terms.wait).await?, tokens: Vec::new() })
}

async fn waited<F, K>(lock: Lock<F, K>, wait: Option<Duration>) -> Result<Guard<F>, Error> {
    match wait {
        None => lock.acquire().await,
        Some(limit) => lock.acquire_timeout(limit).await,
    }
}

/// Asks the server whether [`acquire`] would have to wait now. Any client counts as a holder.
///
/// # Errors
/// As [`Locks::command`].
pub async fn is_locked(locks: Locks, wanted: Wanted) -> Result<bool, Error> {
    let (names, limit) = match wanted {
        Wanted::Lock(name) | Wanted::Read(name) | Wanted::Write(name) => (vec![name], 1),
        Wanted::Permit { name, limit } => (vec![name], i64::from(limit)),
        Wanted::All(names) => (names, 1),
    };
    for name in names {
        let reply = locks.command(&name, &[b"RLOCK.INSPECT".as_slice(), &name, b"COUNT", b"1"]).await?;
        if holders(&reply).is_some_and(|holders| holders >= limit) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of holders in a reply of INSPECT: names and values in turn.
fn holders(reply: &Reply) -> Option<i64> {
    let Reply::List(fields) = reply else { return None };
    let name = Reply::Text(b"holder-count".to_vec());
    fields.chunks_exact(2).find(|field| field[0] == name).and_then(|field| match field[1] {
        Reply::Int(count) => Some(count),
        _ => None,
    })
}

/// The word for the kind of failure: the same in all languages.
#[must_use]
pub fn word(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Timeout => "busy",
        ErrorKind::Lost if error.is_in_doubt() => "in-doubt",
        ErrorKind::Lost => "lost",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::TooFewReplicas { .. } => "too-few-replicas",
        ErrorKind::WrongKind => "wrong-kind",
        ErrorKind::Deadlock => "deadlock",
        ErrorKind::QueueFull => "queue-full",
        ErrorKind::ModuleMissing => "no-module",
        ErrorKind::ModuleTooOld => "old-module",
        ErrorKind::Configuration => "configuration",
        _ if matches!(error.code(), Some("NOPERM" | "WRONGPASS" | "NOAUTH")) => "no-right",
        _ => "refused",
    }
}
