//! An address that was read: which servers it names, in what way, and as whom they are asked.

use rlock_client::{Access, Address as Node, Certificates, Error, Locks, Place};
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
    One(Node),
    Cluster(Vec<Node>),
    Sentinels { sentinels: Vec<Node>, master: String, access: Access },
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
        certificates: Option<Certificates>,
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

    pub fn way(&self) -> Way {
        match self.route {
            Route::One(_) => Way::One,
            Route::Cluster(_) => Way::Cluster,
            Route::Sentinels { .. } => Way::Sentinels,
        }
    }

    pub fn has_tls(&self) -> bool {
        self.access().iter().any(|access| access.tls)
    }

    /// The address of the cluster that this server is a node of. A socket's port is not known.
    pub fn as_cluster(&self) -> String {
        let scheme = if self.has_tls() { "rediss+cluster" } else { "redis+cluster" };
        match &self.route {
            Route::One(Node { place: Place::Unix(_), .. }) => format!("{scheme}://host:port"),
            _ => format!("{scheme}://{}", self.shown),
        }
    }

    /// As whom each node is asked.
    pub(super) fn access(&self) -> Vec<&Access> {
        match &self.route {
            Route::One(one) => vec![&one.access],
            Route::Cluster(nodes) => nodes.iter().map(|node| &node.access).collect(),
            Route::Sentinels { access, .. } => vec![access],
        }
    }

    pub(super) fn authenticate(&mut self, password: &str) {
        let with = |access: &mut Access| access.password = Some(password.to_owned());
        match &mut self.route {
            Route::One(one) => with(&mut one.access),
            Route::Cluster(nodes) => nodes.iter_mut().for_each(|node| with(&mut node.access)),
            Route::Sentinels { access, .. } => with(access),
        }
    }
}
