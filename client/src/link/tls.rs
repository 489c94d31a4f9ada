//! TLS with the system's certificates, which are read once and not for each connection. An address that brings
//! certificates of its own is left to the library.

use super::opening::tcp_settings;
use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

static CONFIGURATION: OnceLock<Arc<ClientConfig>> = OnceLock::new();

/// Nothing if it is for the library.
pub(super) async fn connect(address: &ConnectionAddr) -> Option<RedisResult<TlsStream<TcpStream>>> {
    match address {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
            Some(shake_hands(host, *port).await)
        }
        _ => None,
    }
}

async fn shake_hands(host: &str, port: u16) -> RedisResult<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| {
        RedisError::from((ErrorKind::InvalidClientConfig, "no certificate can be for this host", error.to_string()))
    })?;
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let settings = tcp_settings();
    if let Some(probes) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(probes)?;
    }
    #[cfg(target_os = "linux")]
    SockRef::from(&stream).set_tcp_user_timeout(settings.user_timeout())?;
    Ok(TlsConnector::from(configuration()).connect(name, stream).await?)
}

fn configuration() -> Arc<ClientConfig> {
    let read = || {
        let mut certificates = RootCertStore::empty();
        // What cannot be read is missed by a server that needs it, whose name is told then.
        certificates.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(ClientConfig::builder().with_root_certificates(certificates).with_no_client_auth())
    };
    CONFIGURATION.get_or_init(read).clone()
}
