//! One server, and the connections to it.
//!
//! A wait needs a connection of its own, since a server answers what comes after a blocked request only after it. There
//! is no limit on how many: with one, a program that waits for B while it holds A could wait for a connection that only
//! the release of A would free.

use super::connection::{Connection, GivenConnection, Use};
use super::fault::Fault;
use super::idle_connections::IdleConnections;
use super::liveness::Liveness;
use super::shared_connection::SharedConnection;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisResult};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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
    shared: SharedConnection,
    idle: Arc<IdleConnections>,
    liveness: Liveness,
}

enum Source {
    Address(Box<Client>),
    /// Makes clones of it.
    Given(Box<dyn Fn() -> GivenConnection + Send + Sync>),
}

impl Node {
    pub(crate) fn at(address: ConnectionInfo, limits: Limits) -> RedisResult<Arc<Self>> {
        let name = address.addr().to_string();
        // What an operator reads in CLIENT LIST.
        let settings = address.redis_settings().clone();
        let settings = settings.set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let client = Client::open(address.set_tcp_settings(tcp_settings()).set_redis_settings(settings))?;
        Ok(Self::new(name, Source::Address(Box::new(client)), limits))
    }

    pub(crate) fn given<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C, limits: Limits) -> Arc<Self> {
        let source = Source::Given(Box::new(move || Box::new(connection.clone())));
        // A name of its own, since nobody can tell whether two connections are to the same server.
        let name = format!("connection {}", GIVEN.fetch_add(1, Relaxed));
        Self::new(name, source, limits)
    }

    fn new(name: String, source: Source, limits: Limits) -> Arc<Self> {
        let (shared, liveness) = Default::default();
        Arc::new(Self { name, source, limits, shared, idle: IdleConnections::new(limits.idle), liveness })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The whole address of a node that this one tells of: it leaves out the host where that is its own.
    pub(crate) fn full_address(&self, address: &str) -> String {
        match (address.rsplit_once(':'), self.name.rsplit_once(':')) {
            (Some(("" | "?", port)), Some((host, _))) => format!("{host}:{port}"),
            _ => address.to_owned(),
        }
    }

    /// Whether there can be connections for waits.
    pub(super) fn can_dedicate(&self) -> bool {
        matches!(self.source, Source::Address(_))
    }

    pub(crate) async fn connection(&self, wanted: Use) -> Result<Connection, Fault> {
        let client = match &self.source {
            Source::Given(connection) => return Ok(Connection::Given(connection())),
            Source::Address(client) => client,
        };
        if wanted == Use::Shared {
            let (connection, number) = self.shared.get(self.connect(client)).await?;
            return Ok(Connection::Shared(connection, number));
        }
        match self.idle.take() {
            Some(connection) => Ok(Connection::Dedicated(connection)),
            None => self.connect(client).await.map(Connection::Dedicated),
        }
    }

    async fn connect(&self, client: &Client) -> Result<MultiplexedConnection, Fault> {
        // Each request brings its own time limit.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(self.limits.connect)).set_response_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(Fault::of_connecting)
    }

    /// Takes a connection out of use on which a request was left without an answer.
    pub(crate) fn discard(&self, connection: &Connection) {
        match connection {
            Connection::Shared(_, number) => self.shared.discard(*number),
            // If this one broke, the others have too, more likely than not.
            Connection::Dedicated(_) => self.idle.close_all(),
            // The caller that gave it makes it anew.
            Connection::Given(_) => self.shared.mark_broken(),
        }
    }

    /// Keeps a connection for the next wait. Only one on which nothing is left to be answered.
    pub(crate) fn keep(&self, connection: Connection) {
        if let Connection::Dedicated(connection) = connection {
            self.idle.put(connection);
        }
    }

    /// Takes the shared connection out of use if it has broken, so that the next request is not sent into nowhere.
    pub(super) fn discard_if_broken(&self) {
        self.shared.discard_if_broken();
    }

    /// Whether the shared connection has broken since this was asked the last time.
    pub(super) fn has_broken(&self) -> bool {
        self.shared.has_broken()
    }

    /// Resolves when the server has not answered for as long as an answer may take.
    pub(super) async fn stands_still(&self) {
        self.liveness.ended(self.limits.answer, || self.answers()).await;
    }

    /// Any answer will do, be it an error. A connection that is refused or broken is told to the wait by its own.
    async fn answers(&self) -> bool {
        let mut connection = match self.connection(Use::Shared).await {
            Ok(connection) => connection,
            Err(fault) => return fault.is_prompt(),
        };
        let answer = connection.send(&redis::cmd("PING"), Some(self.limits.answer)).await;
        if answer.as_ref().is_err_and(Fault::doubts_the_server) {
            self.discard(&connection);
        }
        answer.err().is_none_or(|fault| fault.is_prompt())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
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
