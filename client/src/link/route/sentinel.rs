//! A master and its replicas, watched by sentinels, which know which one is the master now.
//!
//! They are asked here and not by the library, which opens connections of its own kind: without the client's
//! certificates, and by another name.

use super::elsewhere;
use crate::link::fault::Fault;
use crate::link::manner::Manner;
use crate::link::node::Node;
use crate::link::single_flight::SingleFlight;
use crate::runtime::Thread;
use futures_util::future::select_ok;
use redis::{ConnectionInfo, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::timeout;

pub(crate) struct Sentinels {
    sentinels: Vec<Arc<Node>>,
    master_name: String,
    /// What each master's address has in common: TLS, the user, the password, the database.
    pattern: ConnectionInfo,
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
        pattern: ConnectionInfo,
        manner: Manner,
        thread: &Thread,
    ) -> RedisResult<Self> {
        if sentinels.is_empty() {
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, "at least one sentinel is needed")));
        }
        let node = |sentinel| Node::at(sentinel, &manner, thread);
        let sentinels = sentinels.into_iter().map(node).collect::<RedisResult<_>>()?;
        let (thread, (asking, master)) = (thread.clone(), Default::default());
        Ok(Self { sentinels, master_name, pattern, manner, thread, asking, master })
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

    /// Asks all at once, since any one of them may have been cut off from the others. The first master counts that a
    /// sentinel names and that says itself that it is one.
    async fn ask(&self) -> Result<(), Fault> {
        // The sentinel may be slow, and so may the master.
        let limit = (self.manner.limits.connect + self.manner.limits.answer).saturating_mul(2);
        let asked = self.sentinels.iter().map(|sentinel| Box::pin(self.master_by(sentinel)));
        let answer = timeout(limit, select_ok(asked)).await.unwrap_or_else(|_| Err(Fault::Silent(Fault::timed_out())));
        let (node, _) = answer.map_err(|fault| Fault::Unreachable(fault.into_cause()))?;
        *self.state() = Master { node: Some(node), stale: false };
        Ok(())
    }

    async fn master_by(&self, sentinel: &Node) -> Result<Arc<Node>, Fault> {
        sentinel.discard_if_broken();
        let masters = sentinel.send(redis::cmd("SENTINEL").arg("MASTERS")).await?;
        let masters: Vec<HashMap<String, String>> = Vec::from_redis_value(masters).unwrap_or_default();
        let master = masters.iter().find(|master| self.is_up(master)).and_then(address).ok_or_else(no_master)?;
        let node = self.node_at(sentinel, &master)?;
        match node.send(&redis::cmd("ROLE")).await {
            Ok(Value::Array(role)) if role.first().is_some_and(|role| is_word(role, "master")) => Ok(node),
            // The user may not ask: the sentinel's word has to do.
            Err(Fault::Refused(error)) if error.code() == Some("NOPERM") => Ok(node),
            answer => answer.and(Err(no_master())),
        }
    }

    fn is_up(&self, master: &HashMap<String, String>) -> bool {
        let flags = master.get("flags").map_or("", String::as_str);
        let has = |flag: &str| flags.split(',').any(|it| it == flag);
        master.get("name") == Some(&self.master_name) && has("master") && !has("s_down") && !has("o_down")
    }

    /// The same master keeps its connections.
    fn node_at(&self, sentinel: &Node, address: &str) -> Result<Arc<Node>, Fault> {
        let address = elsewhere(&self.pattern, &sentinel.full_address(address)).ok_or_else(no_master)?;
        let name = address.addr().to_string();
        match self.present().filter(|known| known.name() == name) {
            Some(known) => Ok(known),
            None => Node::at(address, &self.manner, &self.thread).map_err(Fault::Refused),
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

    fn state(&self) -> std::sync::MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(master: &HashMap<String, String>) -> Option<String> {
    Some(format!("{}:{}", master.get("ip")?, master.get("port")?))
}

fn is_word(value: &Value, word: &str) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == word.as_bytes())
}

fn no_master() -> Fault {
    let what = "no master of this name that is up";
    Fault::NotNow(RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, what)))
}
