//! An address that was read: which servers it names, in what way, and as whom they are asked.

use rlock_client::redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo, TlsCertificates};
use rlock_client::{Error, Locks};
use std::fmt;
use std::time::Duration;

/// Shown, it is what errors call the server.
pub struct Address {
    pub(super) route: Route,
    pub(super) shown: String,
}

/// What it was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    One,
    Cluster,
    Sentinels,
}

#[derive(Clone)]
pub(super) enum Route {
    One(ConnectionInfo),
    Cluster(Vec<ConnectionInfo>),
    Sentinels { sentinels: Vec<ConnectionInfo>, master: String, access: ConnectionInfo },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    pub async fn open(
        &self,
        name: Option<&str>,
        certificates: Option<TlsCertificates>,
        limit: Duration,
    ) -> Result<Locks, Error> {
        let options = Locks::options().connect_timeout(limit).answer_timeout(limit);
        let options = if let Some(name) = name { options.name(name) } else { options };
        let options = if let Some(them) = certificates { options.certificates(them) } else { options };
        match self.route.clone() {
            Route::One(one) => options.connect_to(one).await,
            Route::Cluster(nodes) => options.connect_to_cluster(nodes).await,
            Route::Sentinels { sentinels, master, access } => {
                options.connect_to_sentinels(sentinels, master, access).await
            }
        }
    }

    /// The one server that it names, if it is not a cluster's or that of sentinels.
    pub fn single(&self) -> Option<&ConnectionInfo> {
        match &self.route {
            Route::One(one) => Some(one),
            Route::Cluster(_) | Route::Sentinels { .. } => None,
        }
    }

    pub fn way(&self) -> Way {
        match self.route {
            Route::One(_) => Way::One,
            Route::Cluster(_) => Way::Cluster,
            Route::Sentinels { .. } => Way::Sentinels,
        }
    }

    pub fn has_tls(&self) -> bool {
        let is_secure = |node: &ConnectionInfo| matches!(node.addr(), ConnectionAddr::TcpTls { .. });
        match &self.route {
            Route::One(one) => is_secure(one),
            Route::Cluster(nodes) => nodes.iter().any(is_secure),
            Route::Sentinels { access, .. } => is_secure(access),
        }
    }

    /// The address of the cluster that this server is a node of. A socket's port is not known.
    pub fn as_cluster(&self) -> String {
        let scheme = if self.has_tls() { "rediss+cluster" } else { "redis+cluster" };
        match &self.route {
            Route::One(one) if matches!(one.addr(), ConnectionAddr::Unix(_)) => format!("{scheme}://host:port"),
            _ => format!("{scheme}://{}", self.shown),
        }
    }

    /// User and password, of each node.
    pub(super) fn access(&self) -> Vec<&RedisConnectionInfo> {
        match &self.route {
            Route::One(one) => vec![one.redis_settings()],
            Route::Cluster(nodes) => nodes.iter().map(ConnectionInfo::redis_settings).collect(),
            Route::Sentinels { access, .. } => vec![access.redis_settings()],
        }
    }

    pub(super) fn authenticate(&mut self, password: &str) {
        let with = |node: &ConnectionInfo| {
            node.clone().set_redis_settings(node.redis_settings().clone().set_password(password))
        };
        match &mut self.route {
            Route::One(one) => *one = with(one),
            Route::Cluster(nodes) => nodes.iter_mut().for_each(|node| *node = with(node)),
            Route::Sentinels { access, .. } => *access = with(access),
        }
    }
}
