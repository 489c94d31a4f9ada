//! TLS with the system's certificates, which are read once and not for each connection.

use redis::{ErrorKind, RedisError, RedisResult};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

static CONFIGURATION: OnceLock<Arc<ClientConfig>> = OnceLock::new();

pub(super) async fn shake_hands(host: &str, stream: TcpStream) -> RedisResult<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| {
        RedisError::from((ErrorKind::InvalidClientConfig, "no certificate can be for this host", error.to_string()))
    })?;
    Ok(TlsConnector::from(configuration()).connect(name, stream).await?)
}

fn configuration() -> Arc<ClientConfig> {
    let read = || {
        let mut certificates = RootCertStore::empty();
        // Those that cannot be read are missed by a server that needs them, and then the error says so.
        certificates.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(ClientConfig::builder().with_root_certificates(certificates).with_no_client_auth())
    };
    CONFIGURATION.get_or_init(read).clone()
}
