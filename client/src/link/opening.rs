//! How connections are opened: a few at a time, over TLS with one configuration for all, and with the server's own words
//! where it refuses one.
//!
//! The library loads the certificates of the system for each connection anew, which takes it longer than all the rest.

use super::fault::Fault;
#[cfg(feature = "tls")]
use super::tls;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, Value};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// So that a server that comes back is not flooded, nor this thread busy with nothing but handshakes.
static UNDER_WAY: Semaphore = Semaphore::const_new(8);

/// How long a server that has closed a connection at once is listened to for its reason.
const REASON_MAX: Duration = Duration::from_millis(200);

/// A server with these settings, by which operators know this client.
pub(super) fn client(address: ConnectionInfo) -> RedisResult<Client> {
    let settings = address.redis_settings().clone();
    let settings = settings.set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    Client::open(address.set_tcp_settings(tcp_settings()).set_redis_settings(settings))
}

/// Notices a server that is gone without a word, also while nothing is sent.
pub(super) fn tcp_settings() -> TcpSettings {
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(probes);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(Duration::from_secs(30));
    settings
}

/// Opens a connection, within that time once it is its turn.
pub(super) async fn open(client: Client, limit: Duration) -> Result<MultiplexedConnection, Fault> {
    // Never an error, as nobody closes it.
    let _turn = UNDER_WAY.acquire().await;
    let opened = timeout(limit, connect(&client)).await.unwrap_or_else(|_| Err(Fault::timed_out()));
    match opened.map_err(Fault::of_connecting) {
        Err(fault @ Fault::Unreachable(_)) if fault.is_prompt() => {
            Err(reason(client.get_connection_info().addr()).await.map_or(fault, Fault::of_connecting))
        }
        opened => opened,
    }
}

async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    // Each request brings its own time limit.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    #[cfg(feature = "tls")]
    if let Some(stream) = tls::connect(client.get_connection_info().addr()).await {
        let settings = client.get_connection_info().redis_settings();
        let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream?, config).await?;
        tokio::spawn(driver);
        return Ok(connection);
    }
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// What a server says that refuses a connection: before it is asked anything, so it gets lost when something is sent.
async fn reason(address: &ConnectionAddr) -> Option<RedisError> {
    let heard = async {
        match address {
            ConnectionAddr::Tcp(host, port) => listen(TcpStream::connect((&**host, *port)).await?).await,
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
