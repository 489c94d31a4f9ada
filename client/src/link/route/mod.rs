//! Which server a lock is on. One server, the master that sentinels name, or the owner of the name's slot in a cluster.

mod cluster;
mod sentinel;
mod slots;

pub(crate) use cluster::Cluster;
pub(crate) use sentinel::Sentinels;

use super::fault::Fault;
use super::node::Node;
use redis::{ConnectionAddr, ConnectionInfo};
use std::future::pending;
use std::sync::Arc;

/// An address like this one, at another `host:port`.
fn elsewhere(pattern: &ConnectionInfo, address: &str) -> Option<ConnectionInfo> {
    let (host, port) = address.rsplit_once(':')?;
    let (host, port) = (host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?);
    let address = match pattern.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Some(pattern.clone().set_addr(address))
}

pub(crate) enum Route {
    Single(Arc<Node>),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Route {
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// What it was given as.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Single(node) => node.name(),
            Self::Sentinels(sentinels) => sentinels.name(),
            Self::Cluster(cluster) => cluster.name(),
        }
    }

    /// Connects, so that a wrong address or password shows at once.
    pub(crate) async fn try_out(&self) -> Result<(), Fault> {
        match self {
            // A node that answers has accepted the password. That each slot's owner is there is not needed yet.
            Self::Cluster(cluster) => cluster.learn().await,
            _ => self.node(b"").await?.connection().await.map(drop),
        }
    }

    /// The server to ask about this key.
    pub(crate) async fn node(&self, key: &[u8]) -> Result<Arc<Node>, Fault> {
        match self {
            Self::Single(node) => Ok(node.clone()),
            Self::Sentinels(sentinels) => sentinels.master().await,
            Self::Cluster(cluster) => cluster.owner(key).await,
        }
    }

    /// All servers that locks are on.
    #[cfg(feature = "commands")]
    pub(crate) async fn masters(&self) -> Result<Vec<Arc<Node>>, Fault> {
        match self {
            Self::Cluster(cluster) => cluster.owners().await,
            _ => self.node(b"").await.map(|node| vec![node]),
        }
    }

    /// Where this key is, as far as is known without asking: keys of one place can be asked about together.
    pub(crate) fn place(&self, key: &[u8]) -> Option<Arc<str>> {
        match self {
            Self::Single(_) | Self::Sentinels(_) => None,
            Self::Cluster(cluster) => cluster.known_owner(key),
        }
    }

    /// The places whose connections have broken since this was asked the last time.
    pub(crate) fn broken_places(&self) -> Vec<Option<Arc<str>>> {
        let broken = match self {
            Self::Single(node) => node.has_broken(),
            Self::Sentinels(sentinels) => sentinels.present().is_some_and(|node| node.has_broken()),
            Self::Cluster(cluster) => return cluster.broken_nodes().into_iter().map(Some).collect(),
        };
        if broken { vec![None] } else { Vec::new() }
    }

    /// Whether what this server has answered counts: a master that was replaced, and does not know it, grants and renews
    /// as ever.
    pub(crate) fn still_leads_to(&self, node: &Arc<Node>) -> Result<(), Fault> {
        match self {
            Self::Sentinels(sentinels) if !sentinels.names(node) => Err(Fault::superseded()),
            _ => Ok(()),
        }
    }

    /// Whether this server is the one to ask about the key, as far as is known, and nothing has cast a doubt on that. What
    /// it says without being asked counts only then.
    pub(crate) fn trusts(&self, key: &[u8], node: &Arc<Node>) -> bool {
        match self {
            Self::Single(_) => true,
            Self::Sentinels(sentinels) => sentinels.known().is_some_and(|known| Arc::ptr_eq(&known, node)),
            Self::Cluster(cluster) => cluster.trusts(key, node),
        }
    }

    /// Learns of servers that take another's place, for as long as it is polled.
    pub(crate) async fn watch(&self) {
        if let Self::Sentinels(sentinels) = self {
            sentinels.watch().await;
        }
    }

    /// Resolves when another server has taken the place of the one that all locks were on. Cancel safe.
    pub(crate) async fn superseded(&self) {
        match self {
            Self::Sentinels(sentinels) => sentinels.superseded.notified().await,
            _ => pending().await,
        }
    }

    /// The node of a redirection.
    pub(crate) fn redirected(&self, address: &str) -> Option<Arc<Node>> {
        match self {
            Self::Single(_) | Self::Sentinels(_) => None,
            Self::Cluster(cluster) => cluster.node_at(address),
        }
    }

    /// A server said that the key has moved there.
    pub(crate) fn moved(&self, key: &[u8], address: &str) {
        if let Self::Cluster(cluster) = self {
            cluster.moved(key, address);
        }
    }

    /// The node failed: look again where things are before it is asked the next time.
    pub(crate) fn mark_stale(&self, node: &Arc<Node>) {
        match self {
            Self::Single(_) => {}
            Self::Sentinels(sentinels) => sentinels.mark_stale(node),
            Self::Cluster(cluster) => cluster.mark_stale(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Settings;
    use crate::link::Manner;
    use crate::runtime::Thread;
    use redis::IntoConnectionInfo;

    /// Nobody is asked at these addresses.
    fn address(port: u16) -> ConnectionInfo {
        format!("redis://127.0.0.1:{port}").into_connection_info().unwrap()
    }

    #[test]
    fn what_a_server_tells_without_being_asked_counts_while_nothing_speaks_against_it() {
        let (manner, thread) = (Manner::of(Settings::default().limits), Thread::start().unwrap());
        let [old, new] = [1, 2].map(|port| Node::at(address(port), &manner, &thread).unwrap());
        let sentinels = Sentinels::new(vec![address(3)], "m".to_owned(), address(3), manner.clone(), &thread).unwrap();
        let cluster = Cluster::new(vec![address(1)], manner, &thread).unwrap();
        sentinels.adopt(old.clone());
        cluster.moved(b"key", "127.0.0.1:1");
        let routes = [Route::Sentinels(sentinels), Route::Cluster(cluster)];
        for route in &routes {
            assert!(route.trusts(b"key", &old) && !route.trusts(b"key", &new));
            route.mark_stale(&old);
            assert!(!route.trusts(b"key", &old), "it is in doubt");
        }
        let [Route::Sentinels(sentinels), Route::Cluster(cluster)] = &routes else { unreachable!("as above") };
        sentinels.adopt(new.clone());
        cluster.moved(b"key", "127.0.0.1:2");
        for route in &routes {
            assert!(!route.trusts(b"key", &old) && route.trusts(b"key", &new));
        }
    }
}
