//! The connections to one server: one that all requests share, and one for WAIT, behind which a server answers nothing else
//! meanwhile. The one on which events are polled is the session's own.

use super::connection::Connection;
use super::fault::Fault;
use super::manner::{Limits, Manner};
use super::opening::{Opened, Opener};
use super::shared_connection::SharedConnection;
use crate::runtime::{Ended, Thread};
use redis::{Cmd, ConnectionInfo, RedisResult, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Connections {
    name: String,
    opener: Opener,
    limits: Limits,
    /// Where connections live.
    pub(super) thread: Thread,
    shared: Arc<SharedConnection>,
    /// For WAIT. Taken by whoever uses it.
    spare: Mutex<Option<Opened>>,
}

impl Connections {
    pub(crate) fn at(address: ConnectionInfo, manner: &Manner, thread: &Thread) -> RedisResult<Self> {
        let name = address.addr().to_string();
        let opener = Opener::new(address, manner.clone())?;
        let (limits, thread) = (manner.limits, thread.clone());
        let (shared, spare) = Default::default();
        Ok(Self { name, opener, limits, thread, shared, spare })
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

    /// The one that all requests share.
    pub(crate) async fn connection(&self) -> Result<Connection, Fault> {
        let (opened, number) = self.shared.get(&self.thread, || self.open()).await?;
        Ok(Connection { opened, number })
    }

    /// One for WAIT: the last that was kept, or a new one.
    pub(crate) async fn spare(&self) -> Result<Opened, Fault> {
        let kept = self.kept().take();
        if let Some(connection) = kept { Ok(connection) } else { self.open().await }
    }

    /// Keeps a connection for the next WAIT. Only one on which nothing is left to be answered.
    pub(crate) fn keep(&self, connection: Opened) {
        *self.kept() = Some(connection);
    }

    /// In the thread where it is to live, from wherever it is wanted. It begins when it is waited for: of many that want
    /// one connection only one does.
    pub(super) fn open(&self) -> impl Future<Output = Result<Opened, Fault>> + Send + use<> {
        let (opener, thread) = (self.opener.clone(), self.thread.clone());
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

    /// Takes a connection out of use on which a request was left without an answer.
    pub(crate) fn discard(&self, connection: &Connection) {
        self.shared.discard(connection.number);
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
