//! The ways to a client: what can be set, and where its servers are.

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

    /// For how long servers that do not answer are asked again before a call gives up with
    /// [`Unavailable`](crate::ErrorKind::Unavailable): as long as a failover may take. 10 s by default. With sentinels
    /// [`acquire_timeout`](crate::Lock::acquire_timeout) goes on until its time is over, as they decide how long that is.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// How long making a connection may take. 2 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect = limit;
        self
    }

    /// How long the answer to a request may take, and [`try_acquire`](crate::Lock::try_acquire) as a whole. 3 s by
    /// default.
    pub fn answer_timeout(mut self, limit: Duration) -> Self {
        self.settings.answer = limit;
        self
    }

    /// After how long the connection is closed over which waits are told how they end, when nobody waits. 30 s by
    /// default.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle = limit;
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

    /// Does not connect before something is asked for. A server that cannot be reached is then asked again as it is when it
    /// goes away later, for as long as [`patience`](Self::patience) says; a wrong address shows with the first lock.
    pub fn lazily(mut self) -> Self {
        self.is_lazy = true;
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
    /// [`Configuration`](crate::ErrorKind::Configuration) for an address that cannot be read,
    /// [`Refused`](crate::ErrorKind::Refused) for a wrong password, [`Unavailable`](crate::ErrorKind::Unavailable) if
    /// nobody answers.
    pub async fn connect_to(self, address: impl TryInto<Address, Error: Into<Error>>) -> Result<Locks, Error> {
        let address = read(address)?;
        let engine = Engine::at(address, self.settings, secret(), Instant::now());
        self.open(engine, Servers::One).await
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
        let seeds = read_all(nodes, "a cluster has at least one")?;
        let engine = Engine::new(Route::cluster(), self.settings, secret(), Instant::now());
        self.open(engine, Servers::Cluster(seeds)).await
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
        let sentinels = read_all(sentinels, "at least one sentinel is needed")?;
        let engine = Engine::new(Route::sentinels(), self.settings, secret(), Instant::now());
        let sentinels = Sentinels::new(sentinels, master.into(), access);
        self.open(engine, Servers::Sentinels(Box::new(sentinels))).await
    }

    /// Connects, so that a wrong address or password shows at once, unless that was not wanted.
    async fn open(self, engine: Engine, servers: Servers) -> Result<Locks, Error> {
        let names = Names::new(self.name.as_deref());
        let thread = Thread::start()?;
        let dialer = Dialer {
            here: thread.here.clone(),
            limit: self.settings.connect,
            name: names.connection.into(),
            #[cfg(feature = "tls")]
            tls: crate::shell::configuration(self.certificates.as_ref())?,
        };
        let is_cluster = matches!(servers, Servers::Cluster(_));
        let shared = Shared::new(engine, self.settings, &names.holder, dialer, thread, servers);
        match is_cluster {
            _ if self.is_lazy => {}
            // A node that answers has accepted the password. That each slot's owner is there is not needed yet.
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
