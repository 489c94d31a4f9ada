//! How connections are opened: a few at a time, over TLS with one configuration for all, and with the server's own words
//! where it refuses one.
//!
//! The library loads the certificates of the system for each connection anew, which takes it longer than all the rest.

use super::fault::Fault;
use super::gathering::Gathering;
use super::manner::Manner;
#[cfg(feature = "tls")]
use super::tls;
use crate::runtime::{Task, Thread};
use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, PushInfo, PushKind, RedisError, RedisResult, Value,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;

/// So many requests may be on their way into a connection at the same time.
const REQUESTS_MAX: usize = 1_000;

/// How long a server that has closed a connection at once is listened to for its reason.
const REASON_MAX: Duration = Duration::from_millis(200);

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Opener {
    client: Client,
    manner: Manner,
}

/// Notices a server that is gone without a word, also while nothing is sent.
fn tcp_settings() -> TcpSettings {
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(probes);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(30));
    settings
}

/// A connection that this client has opened; it is closed with the last clone.
#[derive(Clone)]
pub(crate) struct Opened {
    pub connection: MultiplexedConnection,
    /// Drives it, if the library does not.
    _driver: Option<Arc<Task<()>>>,
}

impl Opener {
    pub(super) fn new(address: ConnectionInfo, manner: Manner) -> RedisResult<Self> {
        let settings = address.redis_settings().clone();
        let settings = settings.set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let client = Client::open(address.set_tcp_settings(tcp_settings()).set_redis_settings(settings))?;
        Ok(Self { client, manner })
    }

    /// Opens a connection, within its time once it is its turn. In the thread where it is to live.
    pub(super) async fn open(self, thread: Thread) -> Result<Opened, Fault> {
        // Never an error, as nobody closes it.
        let _turn = thread.opening.acquire().await;
        let opened = timeout(self.manner.limits.connect, self.connect(&thread)).await;
        match opened.unwrap_or_else(|_| Err(Fault::timed_out())).map_err(Fault::of_connecting) {
            Err(fault @ Fault::Unreachable(_)) if fault.is_prompt() => {
                Err(reason(self.client.get_connection_info().addr()).await.map_or(fault, Fault::of_connecting))
            }
            Ok(opened) => {
                self.name(&opened, &thread);
                Ok(opened)
            }
            refused => refused,
        }
    }

    async fn connect(&self, thread: &Thread) -> RedisResult<Opened> {
        let info = self.client.get_connection_info();
        let config = self.config();
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => greet(thread, info, config, tcp(host, *port).await?).await,
            ConnectionAddr::Unix(path) => greet(thread, info, config, UnixStream::connect(path).await?).await,
            #[cfg(feature = "tls")]
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
                let certificates = self.manner.tls.clone();
                let stream = tls::shake_hands(certificates, host, tcp(host, *port).await?).await?;
                greet(thread, info, config, stream).await
            }
            // One that brings certificates of its own is left to the library.
            _ => {
                let config = config.set_connection_timeout(None);
                let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Opened { connection, _driver: None })
            }
        }
    }

    /// Each request brings its own time limit.
    fn config(&self) -> AsyncConnectionConfig {
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(REQUESTS_MAX);
        let Some(heard) = self.manner.heard.clone() else { return config };
        config.set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Message {
                heard.notify_one();
            }
            Ok::<(), ()>(())
        })
    }

    /// Tells the server what to list it as, on the way with the first request. A server that refuses, or a user without
    /// the right to it, goes without: nobody waits for the answer.
    fn name(&self, opened: &Opened, thread: &Thread) {
        if self.manner.name.is_empty() {
            return;
        }
        let (mut connection, limit) = (opened.connection.clone(), self.manner.limits.answer);
        let command = redis::cmd("CLIENT").arg("SETNAME").arg(&*self.manner.name).clone();
        thread.detach(async move { _ = timeout(limit, connection.req_packed_command(&command)).await });
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses = lookup_host((host, port)).await?.peekable();
    if addresses.peek().is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    // All at once, as some may be cut off.
    let (stream, _) = select_ok(addresses.map(|address| Box::pin(TcpStream::connect(address)))).await?;
    let settings = tcp_settings();
    stream.set_nodelay(settings.nodelay())?;
    if let Some(probes) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(probes)?;
    }
    #[cfg(target_os = "linux")]
    SockRef::from(&stream).set_tcp_user_timeout(settings.user_timeout())?;
    Ok(stream)
}

async fn greet<S>(
    thread: &Thread,
    info: &ConnectionInfo,
    config: AsyncConnectionConfig,
    stream: S,
) -> RedisResult<Opened>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Gathering::of(stream);
    let (connection, driver) = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
    Ok(Opened { connection, _driver: Some(Arc::new(thread.spawn(driver))) })
}

/// What a server says that refuses a connection: before it is asked anything, so it gets lost when something is sent.
async fn reason(address: &ConnectionAddr) -> Option<RedisError> {
    let heard = async {
        match address {
            ConnectionAddr::Tcp(host, port) => listen(tcp(host, *port).await?).await,
            ConnectionAddr::Unix(path) => listen(UnixStream::connect(path).await?).await,
            _ => Ok(Vec::new()),
        }
    };
    let heard = timeout(REASON_MAX, heard).await.ok()?.ok()?;
    redis::parse_redis_value(&heard).and_then(Value::extract_error).err().filter(|error| error.code().is_some())
}

async fn listen(stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut heard = Vec::new();
    stream.take(1_024).read_to_end(&mut heard).await?;
    Ok(heard)
}
