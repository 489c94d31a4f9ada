//! A master and its replicas, watched by sentinels, which know which one is the master now.
//!
//! They are asked here and not by the library, which opens connections of its own kind: without the client's
//! certificates, and by another name.
//!
//! **A master that was replaced may not know it for seconds** (`SENTINEL FAILOVER`, or one that was cut off), and grants and
//! renews as ever. The sentinels know better, and say so at once to those who listen. From then on nothing that the old
//! one says counts, those who wait there wait elsewhere, and what is held is renewed at the new one, or lost.

use super::elsewhere;
use crate::link::fault::Fault;
use crate::link::manner::Manner;
use crate::link::node::Node;
use crate::link::single_flight::SingleFlight;
use crate::runtime::Thread;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, ErrorKind, FromRedisValue, ProtocolVersion, RedisError, RedisResult, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// What a sentinel publishes when it has promoted a replica itself, and when it knows of another master.
const NEWS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// How often they are asked all the same: one may have been started anew, or let nobody listen.
const LOOK: Duration = Duration::from_secs(5);

/// How long the others may take when one has answered: they do not all learn of a new master at the same time.
const OTHERS_MAX: Duration = Duration::from_millis(100);

pub(crate) struct Sentinels {
    sentinels: Vec<Arc<Node>>,
    master_name: String,
    /// What each master's address has in common: TLS, the user, the password, the database.
    pattern: ConnectionInfo,
    manner: Manner,
    thread: Thread,
    asking: SingleFlight,
    master: Mutex<Master>,
    /// A sentinel has published something.
    heard: Arc<Notify>,
    /// There is another master.
    pub(super) superseded: Notify,
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
        let heard = Arc::<Notify>::default();
        let told = Manner { heard: Some(heard.clone()), ..manner.clone() };
        let node = |sentinel: ConnectionInfo| {
            let settings = sentinel.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            Node::at(sentinel.set_redis_settings(settings), &told, thread)
        };
        let sentinels = sentinels.into_iter().map(node).collect::<RedisResult<_>>()?;
        let (thread, (asking, master, superseded)) = (thread.clone(), Default::default());
        Ok(Self { sentinels, master_name, pattern, manner, thread, asking, master, heard, superseded })
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

    /// Learns of another master as soon as a sentinel says so.
    pub(super) async fn watch(&self) {
        loop {
            let _ = timeout(LOOK, self.heard.notified()).await;
            // If nobody knows one, there is none that is better.
            self.asking.run_anew(self.ask()).await;
        }
    }

    /// Asks all at once, since any one of them may have been cut off from the others. Of the masters that they name, and
    /// that say themselves that they are one, the newest counts.
    async fn ask(&self) -> Result<(), Fault> {
        // The sentinel may be slow, and so may the master.
        let limit = (self.manner.limits.connect + self.manner.limits.answer).saturating_mul(2);
        let mut until = Instant::now() + limit;
        let mut asked: FuturesUnordered<_> = self.sentinels.iter().map(|sentinel| self.master_by(sentinel)).collect();
        let (mut newest, mut fault) = (None, Fault::Silent(Fault::timed_out()));
        while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
            match answer {
                Ok(named) => {
                    until = until.min(Instant::now() + OTHERS_MAX);
                    newest = newest.into_iter().chain([named]).max_by_key(|(epoch, _)| *epoch);
                }
                Err(why) => fault = why,
            }
        }
        let (_, node) = newest.ok_or_else(|| Fault::Unreachable(fault.into_cause()))?;
        self.adopt(node);
        Ok(())
    }

    pub(super) fn adopt(&self, node: Arc<Node>) {
        let before = std::mem::replace(&mut *self.state(), Master { node: Some(node.clone()), stale: false });
        if let Some(old) = before.node.filter(|old| !Arc::ptr_eq(old, &node)) {
            old.supersede();
            self.superseded.notify_one();
        }
    }

    /// The one that this sentinel names, and how often there was a new one before it.
    async fn master_by(&self, sentinel: &Node) -> Result<(u64, Arc<Node>), Fault> {
        sentinel.discard_if_broken();
        for news in NEWS {
            // A sentinel that lets nobody listen is asked only.
            let _ = sentinel.send(redis::cmd("SUBSCRIBE").arg(news)).await;
        }
        let masters = sentinel.send(redis::cmd("SENTINEL").arg("MASTERS")).await?;
        let masters: Vec<HashMap<String, String>> = Vec::from_redis_value(masters).unwrap_or_default();
        let master = masters.iter().find(|master| self.is_up(master)).ok_or_else(no_master)?;
        let epoch = master.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        // One that it has promoted itself it names here first.
        let address =
            sentinel.send(redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master_name)).await?;
        let (host, port): (String, u16) = FromRedisValue::from_redis_value(address).map_err(|_| no_master())?;
        let node = self.node_at(sentinel, &format!("{host}:{port}"))?;
        if self.known().is_some_and(|known| Arc::ptr_eq(&known, &node)) {
            return Ok((epoch, node));
        }
        match node.send(&redis::cmd("ROLE")).await {
            Ok(Value::Array(role)) if role.first().is_some_and(|role| is_word(role, "master")) => Ok((epoch, node)),
            // The user may not ask: the sentinel's word has to do.
            Err(Fault::Refused(error)) if error.code() == Some("NOPERM") => Ok((epoch, node)),
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

    /// Whether it is the last one that was known to be the master.
    pub(super) fn names(&self, node: &Arc<Node>) -> bool {
        self.present().is_some_and(|known| Arc::ptr_eq(&known, node))
    }

    /// The last one that was known to be the master.
    pub(crate) fn present(&self) -> Option<Arc<Node>> {
        self.state().node.clone()
    }

    /// The same, unless there is a doubt.
    pub(super) fn known(&self) -> Option<Arc<Node>> {
        let master = self.state();
        master.node.clone().filter(|_| !master.stale)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_word(value: &Value, word: &str) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == word.as_bytes())
}

fn no_master() -> Fault {
    let what = "no master of this name that is up";
    Fault::NotNow(RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, what)))
}
