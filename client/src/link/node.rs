//! One server: the connection that all requests share which cannot block, and those that are opened for waits.
//!
//! A wait needs a connection of its own, since a server answers what comes after a blocked request only after it. There is
//! no limit on how many: with one, a program that waits for B while it holds A could wait for a connection that only the
//! release of A would free.

use super::fault::Fault;
use super::line::{GivenConnection, Line};
use super::pulse::Pulse;
use super::together::Together;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisResult};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Making a connection.
    pub connect: Duration,
    /// The answer to a request that cannot block.
    pub answer: Duration,
    /// A connection for waits that nobody uses.
    pub idle: Duration,
}

/// How many connections were given.
static GIVEN: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Node {
    name: String,
    source: Source,
    limits: Limits,
    shared: Mutex<Shared>,
    connecting: Together,
    spare: Mutex<Spare>,
    pub(super) pulse: Pulse,
    /// The shared connection was taken out of use, and nobody has asked since.
    pub(super) broken: AtomicBool,
}

enum Source {
    Address(Box<Client>),
    /// Makes clones of it.
    Given(Box<dyn Fn() -> GivenConnection + Send + Sync>),
}

/// Which connection a request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Shared,
    Aside,
}

#[derive(Default)]
struct Shared {
    connection: Option<MultiplexedConnection>,
    /// Grows with each connection, so that an old one's failure does not throw away its successor.
    number: u64,
}

/// The connections for waits that nobody uses, in the order in which they were put here: the last one is taken first.
#[derive(Default)]
struct Spare {
    connections: Vec<(MultiplexedConnection, Instant)>,
    /// Whether a task is there to close them.
    watched: bool,
}

impl Node {
    pub(crate) fn at(address: ConnectionInfo, limits: Limits) -> RedisResult<Arc<Self>> {
        let name = address.addr().to_string();
        // What an operator reads in CLIENT LIST.
        let settings = address.redis_settings().clone();
        let settings = settings.set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let client = Client::open(address.set_tcp_settings(tcp_settings()).set_redis_settings(settings))?;
        Ok(Arc::new(Self::new(name, Source::Address(Box::new(client)), limits)))
    }

    pub(crate) fn given<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C, limits: Limits) -> Arc<Self> {
        let source = Source::Given(Box::new(move || Box::new(connection.clone())));
        // A name of its own, since nobody can tell whether two connections are to the same server.
        let name = format!("connection {}", GIVEN.fetch_add(1, Relaxed));
        Arc::new(Self::new(name, source, limits))
    }

    fn new(name: String, source: Source, limits: Limits) -> Self {
        Self {
            name,
            source,
            limits,
            shared: Mutex::default(),
            connecting: Together::default(),
            spare: Mutex::default(),
            pulse: Pulse::default(),
            broken: AtomicBool::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A node's address as this one tells it. The host is left out where it is this one's own.
    pub(crate) fn seen(&self, address: &str) -> String {
        match (address.rsplit_once(':'), self.name.rsplit_once(':')) {
            (Some(("" | "?", port)), Some((host, _))) => format!("{host}:{port}"),
            _ => address.to_owned(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether there can be connections for waits.
    pub(crate) fn has_asides(&self) -> bool {
        matches!(self.source, Source::Address(_))
    }

    pub(crate) async fn line(&self, lane: Lane) -> Result<Line, Fault> {
        let client = match (&self.source, lane) {
            (Source::Given(connection), _) => return Ok(Line::Given(connection())),
            (Source::Address(client), Lane::Shared) => {
                return self.shared(client).await.map(|(connection, number)| Line::Shared(connection, number));
            }
            (Source::Address(client), Lane::Aside) => client,
        };
        let spare = self.spare().connections.pop();
        match spare {
            Some((connection, _)) => Ok(Line::Aside(connection)),
            None => self.connect(client).await.map(Line::Aside),
        }
    }

    async fn shared(&self, client: &Client) -> Result<(MultiplexedConnection, u64), Fault> {
        if self.present().is_none() {
            self.connecting.run(self.share_a_new_one(client)).await?;
        }
        self.present().ok_or_else(|| Fault::Unreachable(Fault::broken_at_once()))
    }

    async fn share_a_new_one(&self, client: &Client) -> Result<(), Fault> {
        let connection = self.connect(client).await?;
        let mut shared = self.shared_state();
        shared.number += 1;
        shared.connection = Some(connection);
        Ok(())
    }

    pub(super) fn present(&self) -> Option<(MultiplexedConnection, u64)> {
        let shared = self.shared_state();
        shared.connection.clone().map(|connection| (connection, shared.number))
    }

    async fn connect(&self, client: &Client) -> Result<MultiplexedConnection, Fault> {
        // Each request brings its own time limit.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(self.limits.connect)).set_response_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(Fault::of_connecting)
    }

    /// Takes a connection out of use on which a request was left without an answer.
    pub(crate) fn discard(&self, line: &Line) {
        match line {
            Line::Shared(_, number) => {
                let mut shared = self.shared_state();
                if shared.number == *number && shared.connection.take().is_some() {
                    self.broken.store(true, Relaxed);
                }
            }
            // If this one broke, the others have too, more likely than not.
            Line::Aside(_) => self.spare().connections.clear(),
            // Who gave it makes it anew.
            Line::Given(_) => self.broken.store(true, Relaxed),
        }
    }

    /// Puts a connection aside for the next wait. Only one on which nothing is left to be answered.
    pub(crate) fn keep(self: &Arc<Self>, line: Line) {
        let Line::Aside(connection) = line else { return };
        let mut spare = self.spare();
        spare.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut spare.watched, true) {
            tokio::spawn(close_the_idle(Arc::downgrade(self), self.limits.idle));
        }
    }

    /// Closes what nobody used for long enough, and tells when to look again, if there is anything left.
    fn close_idle(&self) -> Option<Instant> {
        let idle = self.limits.idle;
        let mut spare = self.spare();
        let now = Instant::now();
        spare.connections.retain(|(_, since)| *since + idle > now);
        let next = spare.connections.first().map(|(_, since)| *since + idle);
        spare.watched = next.is_some();
        next
    }

    fn shared_state(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Runs while there are spare connections.
async fn close_the_idle(node: Weak<Node>, idle: Duration) {
    let mut next = Some(Instant::now() + idle);
    while let Some(time) = next {
        sleep_until(time).await;
        let Some(node) = node.upgrade() else { return };
        next = node.close_idle();
    }
}

/// Notices a server that is gone without a word, also while a wait has nothing to send.
fn tcp_settings() -> TcpSettings {
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(probes);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(30));
    settings
}
