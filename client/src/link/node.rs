//! One server, and the connections to it: one that all requests share, one on which events are polled while somebody
//! waits, and one for WAIT, behind which a server answers nothing else meanwhile.

use super::connection::{Connection, GivenConnection};
use super::fault::Fault;
use super::manner::{Limits, Manner};
use super::opening::{Opened, Opener};
use super::session::Session;
use super::shared_connection::SharedConnection;
use super::single_flight::SingleFlight;
use crate::runtime::{Ended, Thread};
use redis::aio::ConnectionLike;
use redis::{Cmd, ConnectionInfo, RedisResult, Value};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many connections were given.
static GIVEN: AtomicU64 = AtomicU64::new(1);

/// On a caller's connection a session is asked about all the time, so it is not kept for long.
const IDLE_MAX_IF_GIVEN: Duration = Duration::from_secs(1);

pub(crate) struct Node {
    name: String,
    source: Source,
    limits: Limits,
    /// Where connections live.
    pub(super) thread: Thread,
    shared: Arc<SharedConnection>,
    session: Mutex<Option<Arc<Session>>>,
    opening: SingleFlight,
    /// For WAIT. Taken by whoever uses it.
    spare: Mutex<Option<Opened>>,
}

enum Source {
    Address(Box<Opener>),
    /// Makes clones of it.
    Given(Box<dyn Fn() -> GivenConnection + Send + Sync>),
}

impl Node {
    pub(crate) fn at(address: ConnectionInfo, manner: &Manner, thread: &Thread) -> RedisResult<Arc<Self>> {
        let name = address.addr().to_string();
        let opener = Opener::new(address, manner.clone())?;
        Ok(Self::new(name, Source::Address(Box::new(opener)), manner.limits, thread))
    }

    pub(crate) fn given<C: ConnectionLike + Clone + Send + Sync + 'static>(
        connection: C,
        limits: Limits,
        thread: &Thread,
    ) -> Arc<Self> {
        let source = Source::Given(Box::new(move || Box::new(connection.clone())));
        // A name of its own, since nobody can tell whether two connections are to the same server.
        let name = format!("connection {}", GIVEN.fetch_add(1, Relaxed));
        Self::new(name, source, limits, thread)
    }

    fn new(name: String, source: Source, limits: Limits, thread: &Thread) -> Arc<Self> {
        let (shared, session, opening, spare) = Default::default();
        Arc::new(Self { name, source, limits, thread: thread.clone(), shared, session, opening, spare })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether its connection is the caller's, on which nothing may wait.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self.source, Source::Given(_))
    }

    /// The whole address of a node that this one tells of: it leaves out the host where that is its own.
    pub(crate) fn full_address(&self, address: &str) -> String {
        match (address.rsplit_once(':'), self.name.rsplit_once(':')) {
            (Some(("" | "?", port)), Some((host, _))) => format!("{host}:{port}"),
            _ => address.to_owned(),
        }
    }

    /// The one that all requests share.
    pub(crate) async fn connection(&self) -> Result<Connection, Fault> {
        match &self.source {
            Source::Given(connection) => Ok(Connection::Given(connection())),
            Source::Address(opener) => {
                let (connection, number) = self.shared.get(&self.thread, || self.open(opener)).await?;
                Ok(Connection::Opened(connection, number))
            }
        }
    }

    /// One of its own, if there can be.
    pub(super) async fn connection_for_polls(&self) -> Result<Connection, Fault> {
        match &self.source {
            Source::Given(connection) => Ok(Connection::Given(connection())),
            // Not the shared one, whatever its number.
            Source::Address(opener) => self.open(opener).await.map(|connection| Connection::Opened(connection, 0)),
        }
    }

    /// One for WAIT: the last that was kept, or a new one. A caller's connection cannot be had for that.
    pub(crate) async fn spare(&self) -> Result<Opened, Fault> {
        match &self.source {
            Source::Given(_) => Err(Fault::Unreachable(Fault::broken_at_once())),
            Source::Address(opener) => {
                let kept = self.kept().take();
                if let Some(connection) = kept { Ok(connection) } else { self.open(opener).await }
            }
        }
    }

    /// Keeps a connection for the next WAIT. Only one on which nothing is left to be answered.
    pub(crate) fn keep(&self, connection: Opened) {
        *self.kept() = Some(connection);
    }

    /// In the thread where it is to live, from wherever it is wanted. It begins when it is waited for: of many that want
    /// one connection only one does.
    fn open(&self, opener: &Opener) -> impl Future<Output = Result<Opened, Fault>> + Send + use<> {
        let (opener, thread) = (opener.clone(), self.thread.clone());
        async move {
            let opening = thread.spawn(opener.open(thread.clone()));
            opening.await.unwrap_or_else(|Ended| Err(Fault::Unreachable(Fault::broken_at_once())))
        }
    }

    /// Sends a request to this server, whatever it has.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Fault> {
        let mut connection = self.connection().await?;
        let answer = connection.send(command, false, self.limits.answer).await;
        if matches!(answer, Err(Fault::Silent(_))) {
            self.discard(&connection);
        }
        answer
    }

    /// The session of this program there, when it is open.
    pub(super) async fn session(self: &Arc<Self>) -> Result<Arc<Session>, Fault> {
        let session = {
            let mut present = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            present.take_if(|session| session.is_over());
            present.get_or_insert_with(|| Session::begin(self)).clone()
        };
        // In the order in which they have come, so that they ask in that order.
        self.opening.run(session.opened()).await?;
        Ok(session)
    }

    /// Another server has taken its place: whoever waits here waits for nothing.
    pub(super) fn supersede(&self) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session {
            session.ends(&Fault::superseded());
        }
    }

    /// For how long a session is kept in which nobody waits.
    pub(super) fn idle_limit(&self) -> Duration {
        match self.source {
            Source::Given(_) => self.limits.idle.min(IDLE_MAX_IF_GIVEN),
            Source::Address(_) => self.limits.idle,
        }
    }

    /// Takes a connection out of use on which a request was left without an answer.
    pub(crate) fn discard(&self, connection: &Connection) {
        match connection {
            Connection::Opened(_, number) => self.shared.discard(*number),
            // The caller that gave it makes it anew.
            Connection::Given(_) => self.shared.mark_broken(),
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

    fn kept(&self) -> MutexGuard<'_, Option<Opened>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
