//! A parsed address: its servers, the kind of setup, and the login.

use rlock_client::{Access, Address as Node, Certificates, Error, Locks, Options, Place};
use std::fmt;
use std::time::Duration;

/// Its `Display` is what errors call the server.
#[derive(Clone)]
pub struct Address {
    pub(super) route: Route,
    pub(super) shown: String,
}

/// The kind of setup that the address names.
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
        options: Options,
        certificates: Option<Certificates>,
        limit: Duration,
    ) -> Result<Locks, Error> {
        let options = options.connect_timeout(limit).answer_timeout(limit);
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

    /// The same login at a server that this setup has named, as `host:port` or as a path.
    pub fn of_node(&self, named: &str) -> Self {
        let access = self.access().first().map(|access| (*access).clone()).unwrap_or_default();
        let place = match named.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) if !named.starts_with('/') => Place::Tcp { host: host.to_owned(), port },
            _ => Place::Unix(named.into()),
        };
        Self { shown: place.to_string(), route: Route::One(Node::new(place, access)) }
    }

    /// The name of the master, and an address for each sentinel that watches it. `None` for other setups.
    pub fn sentinels(&self) -> Option<(&str, Vec<Self>)> {
        let Route::Sentinels { sentinels, master, .. } = &self.route else { return None };
        let one = |node: &Node| Self { shown: node.place.to_string(), route: Route::One(node.clone()) };
        Some((master, sentinels.iter().map(one).collect()))
    }

    /// The user of the login, if the address names one.
    pub fn user(&self) -> Option<&str> {
        self.access().first()?.user.as_deref()
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

    /// The login for each node.
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
