//! A master and its replicas under the eyes of sentinels, who know which one is the master now.

use crate::link::fault::Fault;
use crate::link::node::{Limits, Node};
use crate::link::together::Together;
use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{Client, ConnectionInfo, RedisResult};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

pub(crate) struct Sentinels {
    sentinels: AsyncMutex<Sentinel>,
    count: u32,
    master_name: String,
    access: SentinelNodeConnectionInfo,
    limits: Limits,
    asking: Together,
    master: Mutex<Master>,
}

#[derive(Default)]
struct Master {
    node: Option<Arc<Node>>,
    doubted: bool,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<ConnectionInfo>,
        master_name: String,
        access: SentinelNodeConnectionInfo,
        limits: Limits,
    ) -> RedisResult<Self> {
        let count = u32::try_from(sentinels.len()).unwrap_or(u32::MAX);
        let sentinels = AsyncMutex::new(Sentinel::build(sentinels)?);
        Ok(Self {
            sentinels,
            count,
            master_name,
            access,
            limits,
            asking: Together::default(),
            master: Mutex::default(),
        })
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

    async fn ask(&self) -> Result<(), Fault> {
        let mut sentinels = self.sentinels.lock().await;
        let asked = sentinels.async_master_for(&self.master_name, Some(&self.access));
        // Each sentinel may be slow, and so may the master, whose role is checked.
        let limit = (self.limits.connect + self.limits.answer).saturating_mul(self.count);
        match timeout(limit, asked).await {
            Ok(Ok(master)) => self.adopt(&master).map_err(Fault::Refused),
            Ok(Err(error)) => Err(Fault::Unreachable(error)),
            Err(_) => Err(Fault::Unreachable(Fault::timed_out())),
        }
    }

    pub(crate) fn doubt(&self, node: &Arc<Node>) {
        let mut master = self.state();
        if master.node.as_ref().is_some_and(|known| Arc::ptr_eq(known, node)) {
            master.doubted = true;
        }
    }

    fn known(&self) -> Option<Arc<Node>> {
        let master = self.state();
        master.node.clone().filter(|_| !master.doubted)
    }

    /// The same master keeps its connections.
    fn adopt(&self, client: &Client) -> RedisResult<()> {
        let address = client.get_connection_info().clone();
        let mut master = self.state();
        let name = address.addr().to_string();
        let node = match master.node.take().filter(|known| known.to_string() == name) {
            Some(known) => known,
            None => Node::at(address, self.limits)?,
        };
        *master = Master { node: Some(node), doubted: false };
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
