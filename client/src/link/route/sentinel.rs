//! A master and its replicas, watched by sentinels, which know which one is the master now.

use crate::link::fault::Fault;
use crate::link::manner::Manner;
use crate::link::node::Node;
use crate::link::single_flight::SingleFlight;
use crate::runtime::{Ended, Thread};
use futures_util::future::select_ok;
use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

pub(crate) struct Sentinels {
    /// Each as a list of its own, since of a list only the first that answers is asked, and that one may have been cut
    /// off from the others.
    sentinels: Arc<AsyncMutex<Vec<Sentinel>>>,
    master_name: String,
    access: SentinelNodeConnectionInfo,
    manner: Manner,
    thread: Thread,
    asking: SingleFlight,
    master: Mutex<Master>,
}

#[derive(Default)]
struct Master {
    node: Option<Arc<Node>>,
    stale: bool,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<ConnectionInfo>,
        master_name: String,
        access: SentinelNodeConnectionInfo,
        manner: Manner,
        thread: &Thread,
    ) -> RedisResult<Self> {
        if sentinels.is_empty() {
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, "at least one sentinel is needed")));
        }
        let sentinels = sentinels.into_iter().map(|it| Sentinel::build(vec![it])).collect::<RedisResult<_>>()?;
        let (sentinels, thread) = (Arc::new(AsyncMutex::new(sentinels)), thread.clone());
        let (asking, master) = Default::default();
        Ok(Self { sentinels, master_name, access, manner, thread, asking, master })
    }

    pub(crate) fn name(&self) -> &str {
        &self.master_name
    }

    pub(crate) async fn master(&self) -> Result<Arc<Node>, Fault> {
        if let Some(node) = self.known() {
            return Ok(node);
        }
        self.asking.run(self.ask()).await?;
        self.state().node.clone().ok_or_else(|| Fault::Unreachable(Fault::broken_at_once()))
    }

    /// Asks all at once. The first master counts that a sentinel names and that says itself that it is one.
    async fn ask(&self) -> Result<(), Fault> {
        let (sentinels, name, access) = (self.sentinels.clone(), self.master_name.clone(), self.access.clone());
        // The sentinel may be slow, and so may the master.
        let limit = (self.manner.limits.connect + self.manner.limits.answer).saturating_mul(2);
        // Where the connections to them are to live.
        let asked = self.thread.spawn(async move {
            let mut sentinels = sentinels.lock().await;
            let asked = sentinels.iter_mut().map(|it| Box::pin(it.async_master_for(&name, Some(&access))));
            timeout(limit, select_ok(asked)).await.map(|answer| answer.map(|(master, _)| master))
        });
        match asked.await {
            Ok(Ok(Ok(master))) => self.adopt(&master).map_err(Fault::Refused),
            Ok(Ok(Err(error))) => Err(Fault::Unreachable(error)),
            Ok(Err(_)) => Err(Fault::Unreachable(Fault::timed_out())),
            Err(Ended) => Err(Fault::Unreachable(Fault::broken_at_once())),
        }
    }

    pub(crate) fn mark_stale(&self, node: &Arc<Node>) {
        let mut master = self.state();
        if master.node.as_ref().is_some_and(|known| Arc::ptr_eq(known, node)) {
            master.stale = true;
        }
    }

    /// The last one that was known to be the master.
    pub(crate) fn present(&self) -> Option<Arc<Node>> {
        self.state().node.clone()
    }

    fn known(&self) -> Option<Arc<Node>> {
        let master = self.state();
        master.node.clone().filter(|_| !master.stale)
    }

    /// The same master keeps its connections.
    fn adopt(&self, client: &Client) -> RedisResult<()> {
        let address = client.get_connection_info().clone();
        let mut master = self.state();
        let name = address.addr().to_string();
        let node = match master.node.take().filter(|known| known.to_string() == name) {
            Some(known) => known,
            None => Node::at(address, &self.manner, &self.thread)?,
        };
        *master = Master { node: Some(node), stale: false };
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
