//! What the doctor has read of a setup. Where that failed, the reason is stored: only the check for unknown settings
//! reports it.

use crate::address::Way;
use crate::greeting::Greeting;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a server has reported, or why it has not.
pub type Answer<T> = Result<T, String>;

pub struct Reading {
    pub way: Way,
    /// The scheme of its servers' addresses, and the login.
    pub scheme: &'static str,
    pub user: String,
    /// The servers with data: masters and replicas.
    pub nodes: Vec<Node>,
    /// The sentinels that the address names, if any.
    pub sentinels: Vec<Sentinel>,
    /// Each node's view of the cluster, by the node's address.
    pub cluster: Vec<(String, Answer<Lines>)>,
}

/// A server with data, by its address.
pub struct Node {
    pub address: String,
    /// The address of its master. `None`: it is a master.
    pub follows: Option<String>,
    /// Other servers say that it is down.
    pub is_down: bool,
    /// An error: it does not answer.
    pub seen: Answer<Seen>,
}

/// What a server with data says of itself.
pub struct Seen {
    pub greeting: Answer<Greeting>,
    /// The lines of INFO.
    pub info: Answer<Lines>,
    /// What CONFIG GET says.
    pub settings: Answer<Lines>,
    pub clock: Answer<Clock>,
    /// The commands of rlock that the user may not send.
    pub forbidden: Vec<&'static str>,
}

/// Its clock, compared with the local one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The distance to the local time, in µs. Only differences between servers mean something.
    pub offset_us: i64,
    /// How much the offset may be wrong: half of the time that the request took.
    pub uncertain_us: i64,
}

/// One of the sentinels.
pub struct Sentinel {
    pub address: String,
    /// Its report on the master: an error if it does not reply, or knows no master of this name.
    pub master: Answer<Lines>,
    /// Its report on a failover: whether enough sentinels can agree on one.
    pub quorum: Answer<()>,
}

/// Names and values.
#[derive(Clone, Debug, Default)]
pub struct Lines(pub BTreeMap<String, String>);

impl Lines {
    /// `name:value`, as in INFO.
    pub fn of_info(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

impl Node {
    pub fn settings(&self) -> Option<&Lines> {
        self.seen.as_ref().ok()?.settings.as_ref().ok()
    }

    pub fn info(&self) -> Option<&Lines> {
        self.seen.as_ref().ok()?.info.as_ref().ok()
    }

    pub fn greeting(&self) -> Option<&Greeting> {
        self.seen.as_ref().ok()?.greeting.as_ref().ok()
    }

    /// A setting that is a number, if it is known.
    pub fn setting(&self, name: &str) -> Option<u64> {
        self.settings()?.number(name)
    }
}

impl Reading {
    pub fn masters(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.follows.is_none())
    }

    pub fn replicas_of<'a>(&'a self, master: &'a Node) -> impl Iterator<Item = &'a Node> {
        self.nodes.iter().filter(|node| node.follows.as_ref() == Some(&master.address))
    }

    /// Whether a failover is possible at all.
    pub fn has_replicas(&self) -> bool {
        self.nodes.iter().any(|node| node.follows.is_some())
    }
}

impl Clock {
    /// From the server's time, and the local time before the request and after the reply.
    pub fn read(server_us: i64, begun: Instant, sent: Instant, answered: Instant) -> Self {
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let half = us(answered - sent) / 2;
        Self { offset_us: server_us - us(sent - begun) - half, uncertain_us: half }
    }
}
