//! The ways to a client: what can be set, and where its servers are.

use crate::address::{Access, Address, Place};
#[cfg(feature = "tls")]
use crate::certificates::Certificates;
use crate::core::{Settings, Shared};
use crate::error::{Error, ErrorKind};
use crate::link::{Cluster, Links, Manner, Node, Route, Sentinels};
use crate::locks::Locks;
use crate::names::Names;
use crate::runtime::Thread;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisError};
use std::sync::Arc;
use std::time::Duration;

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
    #[cfg(feature = "tls")]
    certificates: Option<Certificates>,
}

impl Locks {
    /// Connects to one server, with the default settings: `redis://host:port`, `rediss://` for TLS,
    /// `redis+unix:///path`.
    ///
    /// # Cancel safety
    /// As [`Options::connect_to`].
    ///
    /// # Errors
    /// As [`Options::connect_to`].
    pub async fn connect(address: impl TryInto<Address, Error: Into<Error>>) -> Result<Self, Error> {
        Self::options().connect_to(address).await
    }

    /// Settings, and the ways to clusters and sentinels.
    pub fn options() -> Options {
        Options::default()
    }
}

impl Options {
    /// How long a lease lasts that the watchdog keeps alive: how long a lock stays taken after its holder died. It is
    /// renewed each time that a third of it is over. 30 s by default, as Redisson's. A short one is free sooner when a
    /// program dies, and lost sooner when the network or the program stands still.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// For how long servers that do not answer are asked again before a call gives up with [`ErrorKind::Unavailable`]:
    /// as long as a failover may take. 10 s by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// How long making a connection may take. 2 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.limits.connect = limit;
        self
    }

    /// How long the answer to a request may take, and [`try_acquire`](crate::Lock::try_acquire) as a whole. 3 s by
    /// default.
    pub fn answer_timeout(mut self, limit: Duration) -> Self {
        self.settings.limits.answer = limit;
        self
    }

    /// After how long the connection is closed over which waits are told how they end, when nobody waits. 30 s by
    /// default.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.limits.idle = limit;
        self
    }

    /// What this program is called where people look for who holds a lock: its holders begin with it
    /// (`name:uuid:number`), and servers list its connections by it (`CLIENT LIST`). Without one it is host and process:
    /// holders are `host:process:uuid:number`, connections `rlock:host:process`. Of what is given 64 characters count;
    /// those that are not ASCII letters, digits or one of `-_.@/+=` become `_`.
    ///
    /// It is for people: what makes a holder the only one of its name is the uuid. An empty name leaves it out, for
    /// holders of 44 bytes or so and for hosts that nobody should know; a server keeps a lock whose holder is longer than
    /// 64 bytes in a larger form.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// For TLS: the authorities to trust in place of the system's, and the certificate and key by which servers know this
    /// client that ask for one (`tls-auth-clients yes`, their default), all as PEM. They are for all connections, also
    /// those to sentinels and to all nodes of a cluster.
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

    /// Connects to one server: `redis://`, `rediss://` (TLS) or `redis+unix://`, or an [`Address`]. All addresses are in
    /// [Topologies](crate#topologies). Whether the server has the module shows with the first lock.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for an address that cannot be read, [`ErrorKind::Refused`] for a wrong password,
    /// [`ErrorKind::Unavailable`] if nobody answers.
    pub async fn connect_to(self, address: impl TryInto<Address, Error: Into<Error>>) -> Result<Locks, Error> {
        let (address, thread) = (read(address)?, Thread::start()?);
        let node = Node::at(address, &self.manner()?, &thread).map_err(unusable)?;
        self.open(Route::Single(node), thread).await
    }

    /// Connects to a Redis Cluster, of which some nodes are given. Each lock is asked for at the owner of its slot,
    /// wherever that moves. TLS, user and password are the first node's, for all.
    ///
    /// # Cancel safety
    /// As [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// As [`connect_to`](Self::connect_to).
    pub async fn connect_to_cluster<A: TryInto<Address, Error: Into<Error>>>(
        self,
        nodes: impl IntoIterator<Item = A>,
    ) -> Result<Locks, Error> {
        let seeds = nodes.into_iter().map(read).collect::<Result<_, _>>()?;
        let thread = Thread::start()?;
        let cluster = Cluster::new(seeds, self.manner()?, &thread).map_err(unusable)?;
        self.open(Route::Cluster(cluster), thread).await
    }

    /// Connects to the master of that name that sentinels watch, and to its successor after a failover. `access` is the
    /// master's: TLS, the user, the password and the database; where it is, the sentinels tell.
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
    /// As [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// As [`connect_to`](Self::connect_to).
    pub async fn connect_to_sentinels<A: TryInto<Address, Error: Into<Error>>>(
        self,
        sentinels: impl IntoIterator<Item = A>,
        master: impl Into<String>,
        access: Access,
    ) -> Result<Locks, Error> {
        let sentinels = sentinels.into_iter().map(read).collect::<Result<_, _>>()?;
        let thread = Thread::start()?;
        let nowhere = Place::Tcp { host: String::new(), port: 0 };
        let (access, manner) = (known(Address::new(nowhere, access))?, self.manner()?);
        let sentinels = Sentinels::new(sentinels, master.into(), access, manner, &thread).map_err(unusable)?;
        self.open(Route::Sentinels(sentinels), thread).await
    }

    fn manner(&self) -> Result<Manner, Error> {
        choose_cryptography();
        Ok(Manner {
            limits: self.settings.limits,
            name: self.names().connection.into(),
            heard: None,
            #[cfg(feature = "tls")]
            tls: self
                .certificates
                .as_ref()
                .map(crate::link::configuration)
                .transpose()
                .map_err(unusable_certificates)?,
        })
    }

    fn names(&self) -> Names {
        Names::new(self.name.as_deref())
    }

    async fn open(self, route: Route, thread: Thread) -> Result<Locks, Error> {
        let tried =
            async move { route.try_out().await.map_err(|fault| fault.into_error(b"connecting")).map(|()| route) };
        let route = thread.ask(b"connecting", tried).await?;
        Ok(self.with(route, thread))
    }

    fn with(self, route: Route, thread: Thread) -> Locks {
        let links = Links { route, limits: self.settings.limits };
        Locks { shared: Arc::new(Shared::new(links, self.settings, &self.names().holder, thread)) }
    }
}

fn read(address: impl TryInto<Address, Error: Into<Error>>) -> Result<ConnectionInfo, Error> {
    known(address.try_into().map_err(Into::into)?)
}

/// As the library has it.
fn known(Address { place, access }: Address) -> Result<ConnectionInfo, Error> {
    let place = match place {
        Place::Unix(path) => ConnectionAddr::Unix(path),
        Place::Tcp { host, port } if !access.tls => ConnectionAddr::Tcp(host, port),
        Place::Tcp { host, port } if cfg!(feature = "tls") => {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        }
        Place::Tcp { .. } => return Err(Error::configuration("address", "TLS needs the feature `tls`")),
    };
    let database = i64::try_from(access.database).unwrap_or(i64::MAX);
    let mut settings = RedisConnectionInfo::default().set_db(database);
    if let Some(user) = access.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = access.password {
        settings = settings.set_password(password);
    }
    place.into_connection_info().map(|it| it.set_redis_settings(settings)).map_err(unusable)
}

fn unusable(error: RedisError) -> Error {
    Error::because(ErrorKind::Configuration, "address", error)
}

#[cfg(feature = "tls")]
fn unusable_certificates(error: RedisError) -> Error {
    Error::because(ErrorKind::Configuration, "certificates", error)
}

/// rustls wants one choice for the whole process. One that the program has made already stays.
fn choose_cryptography() {
    #[cfg(feature = "tls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread has been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
