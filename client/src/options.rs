//! Opening a client: its settings and its servers.

#[cfg(feature = "tls")]
use crate::certificates::Certificates;
use crate::locks::Locks;
use crate::names::Names;
use crate::shell::{Dialer, Sentinels, Servers, Shared, Thread};
use rlock_client_core::Error;
use rlock_client_core::{Access, Address};
use rlock_client_core::{Engine, Route, Settings};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Settings of a client, and the ways to open it. Starts from [`Locks::options`].
///
/// ```no_run
/// # async fn example() -> Result<(), rlock_client::Error> {
/// use rlock_client::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::options()
///     .lease(Duration::from_secs(10))
///     .connect_to("rediss://locks:secret@redis.internal:6380")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    settings: Settings,
    name: Option<String>,
    is_lazy: bool,
    #[cfg(feature = "tls")]
    certificates: Option<Certificates>,
}

impl Locks {
    /// Connects to one server, with the default settings: `redis://host:port`, `rediss://` for TLS,
    /// `redis+unix:///path`.
    ///
    /// # Cancel safety
    /// Like [`Options::connect_to`].
    ///
    /// # Errors
    /// Like [`Options::connect_to`].
    pub async fn connect(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        Self::options().connect_to(address).await
    }

    /// Settings, and the ways to clusters and sentinels.
    pub fn options() -> Options {
        Options::default()
    }
}

impl Options {
    /// Sets the lease, which the watchdog renews each time that a third of it is over: after a holder dies, its lock
    /// stays taken for this long. 30 s by default, as in Redisson. With a shorter lease a lock is free sooner after a
    /// crash, and lost sooner when the network or the program stalls.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long silent servers are asked again before a call fails with [`Unavailable`](crate::ErrorKind::Unavailable):
    /// as long as a failover may take. 10 s by default. With sentinels
    /// [`acquire_timeout`](crate::Lock::acquire_timeout) keeps trying until its own time is over, because they decide
    /// how long a failover takes.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// The limit for making a connection. 2 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect = limit;
        self
    }

    /// The limit for the reply to a request, and for [`try_acquire`](crate::Lock::try_acquire) as a whole. 3 s by
    /// default.
    pub fn answer_timeout(mut self, limit: Duration) -> Self {
        self.settings.answer = limit;
        self
    }

    /// How long the connection for the events of waits stays open when nothing waits. 30 s by default.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle = limit;
        self
    }

    /// Sets this program's name for operators: its holders begin with it (`name:uuid:number`), and servers list its
    /// connections under it (`CLIENT LIST`). Without a name they use host and process: holders are
    /// `host:process:uuid:number`, connections `rlock:host:process`. Only the first 64 characters count; characters
    /// other than ASCII letters, digits and `-_.@/+=` become `_`.
    ///
    /// The name is only for people; the uuid makes a holder unique. An empty name leaves the name out: holders have
    /// about 44 bytes, and host names stay private. A server stores a lock in a larger form if its holder is longer than
    /// 64 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Connects only when the first request is made. Then a server that cannot be reached at the start is treated like
    /// a later outage, for up to [`patience`](Self::patience); a wrong address shows with the first lock.
    pub fn lazily(mut self) -> Self {
        self.is_lazy = true;
        self
    }

    /// For TLS: the authorities to trust instead of the system's, and the certificate and key for servers that require
    /// client certificates (`tls-auth-clients yes`, their default), all as PEM. They apply to all connections,
    /// including those to sentinels and to all nodes of a cluster.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use rlock_client::{Certificates, Identity, Locks};
    ///
    /// let mut certificates = Certificates::default();
    /// certificates.authorities = Some(std::fs::read("ca.crt")?);
    /// certificates.identity = Some(Identity { certificate: std::fs::read("client.crt")?, key: std::fs::read("client.key")? });
    /// let locks = Locks::options().certificates(certificates).connect_to("rediss://redis.internal:6380").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Connects to one server: `redis://`, `rediss://` (TLS) or `redis+unix://`, or an [`Address`]. All forms are in
    /// [Topologies](crate#topologies). The first lock shows whether the server has the module.
    ///
    /// # Cancel safety
    /// If dropped, the connection is closed.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) for an address that cannot be read,
    /// [`Refused`](crate::ErrorKind::Refused) for a wrong password, [`Unavailable`](crate::ErrorKind::Unavailable) if
    /// no server replies.
    pub async fn connect_to(self, address: impl TryInto<Address, Error: Into<Error>>) -> Result<Locks, Error> {
        let address = read(address)?;
        let engine = Engine::at(address, self.settings, secret(), Instant::now());
        self.open(engine, Servers::One).await
    }

    /// Connects to a Redis Cluster, given some of its nodes. Each lock's requests go to the owner of its slot, wherever
    /// that moves. TLS, user and password are those of the first address, for all nodes.
    ///
    /// # Cancel safety
    /// Like [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// Like [`connect_to`](Self::connect_to).
    pub async fn connect_to_cluster<A: TryInto<Address, Error: Into<Error>>>(
        self,
        nodes: impl IntoIterator<Item = A>,
    ) -> Result<Locks, Error> {
        let seeds = read_all(nodes, "a cluster has at least one")?;
        let engine = Engine::new(Route::cluster(), self.settings, secret(), Instant::now());
        self.open(engine, Servers::Cluster(seeds)).await
    }

    /// Connects to the master of this name that sentinels watch, and to its successor after a failover. `access` is for
    /// the master: TLS, user, password and database; the sentinels provide its address.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), rlock_client::Error> {
    /// use rlock_client::{Access, Locks};
    ///
    /// let sentinels = ["redis://sentinel-1:26379", "redis://sentinel-2:26379", "redis://sentinel-3:26379"];
    /// let mut access = Access::default();
    /// access.user = Some("app".into());
    /// access.password = Some("secret".into());
    /// let locks = Locks::options().connect_to_sentinels(sentinels, "mymaster", access).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Like [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// Like [`connect_to`](Self::connect_to).
    pub async fn connect_to_sentinels<A: TryInto<Address, Error: Into<Error>>>(
        self,
        sentinels: impl IntoIterator<Item = A>,
        master: impl Into<String>,
        access: Access,
    ) -> Result<Locks, Error> {
        let sentinels = read_all(sentinels, "at least one sentinel is needed")?;
        let engine = Engine::new(Route::sentinels(), self.settings, secret(), Instant::now());
        let sentinels = Sentinels::new(sentinels, master.into(), access);
        self.open(engine, Servers::Sentinels(Box::new(sentinels))).await
    }

    /// Connects, so that a wrong address or password shows at once, unless `lazily` was set.
    async fn open(self, engine: Engine, servers: Servers) -> Result<Locks, Error> {
        let names = Names::new(self.name.as_deref());
        let thread = Thread::start()?;
        let dialer = Dialer {
            process: thread.process.clone(),
            limit: self.settings.connect,
            name: names.connection.into(),
            #[cfg(feature = "tls")]
            tls: crate::shell::configuration(self.certificates.as_ref())?,
        };
        let is_cluster = matches!(servers, Servers::Cluster(_));
        let shared = Shared::new(engine, self.settings, &names.holder, dialer, thread, servers);
        match is_cluster {
            _ if self.is_lazy => {}
            // A node that replies has accepted the password. The owners of all slots are not needed yet.
            true => shared.learn(b"").await?,
            false => _ = shared.ask(b"", b"", None, Vec::new()).await?,
        }
        Ok(Locks { shared })
    }
}

fn secret() -> String {
    Uuid::new_v4().to_string()
}

fn read_all<A: TryInto<Address, Error: Into<Error>>>(
    addresses: impl IntoIterator<Item = A>,
    none: &'static str,
) -> Result<Vec<Address>, Error> {
    let all = addresses.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(Error::configuration("address", none)) } else { Ok(all) }
}

fn read(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Address, Error> {
    let address = address.try_into().map_err(Into::into)?;
    match address.access.tls && !cfg!(feature = "tls") {
        true => Err(Error::configuration("address", "TLS needs the feature `tls`")),
        false => Ok(address),
    }
}
