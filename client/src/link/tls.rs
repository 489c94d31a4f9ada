//! TLS, with certificates that are read once and not for each connection: the system's, or those that the program gives.

use crate::certificates::{Certificates, Identity};
use redis::{ErrorKind, RedisError, RedisResult};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

static WITH_THE_SYSTEMS: OnceLock<Arc<ClientConfig>> = OnceLock::new();

pub(super) async fn shake_hands(
    config: Option<Arc<ClientConfig>>,
    host: &str,
    stream: TcpStream,
) -> RedisResult<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| unusable("no certificate can be for this host", error.to_string()))?;
    let config = config.unwrap_or_else(|| WITH_THE_SYSTEMS.get_or_init(with_the_systems).clone());
    Ok(TlsConnector::from(config).connect(name, stream).await?)
}

fn with_the_systems() -> Arc<ClientConfig> {
    Arc::new(ClientConfig::builder().with_root_certificates(of_the_system()).with_no_client_auth())
}

fn of_the_system() -> RootCertStore {
    let mut certificates = RootCertStore::empty();
    // Those that cannot be read are missed by a server that needs them, and then the error says so.
    certificates.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    certificates
}

/// With those that the program gives.
pub(crate) fn configuration(Certificates { authorities, identity }: &Certificates) -> RedisResult<Arc<ClientConfig>> {
    let mut trusted = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in chain(pem, "no authority's certificate in PEM")? {
                trusted.add(certificate).map_err(|error| unusable("an authority's certificate", error.to_string()))?;
            }
        }
        None => trusted = of_the_system(),
    }
    let config = ClientConfig::builder().with_root_certificates(trusted);
    let Some(Identity { certificate, key }) = identity else {
        return Ok(Arc::new(config.with_no_client_auth()));
    };
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|error| unusable("no private key in PEM", error.to_string()))?;
    let config = config.with_client_auth_cert(chain(certificate, "no client certificate in PEM")?, key);
    Ok(Arc::new(config.map_err(|error| unusable("the client certificate and its key", error.to_string()))?))
}

fn chain(pem: &[u8], none: &'static str) -> RedisResult<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| unusable(none, error.to_string()))?;
    if read.is_empty() { Err((ErrorKind::InvalidClientConfig, none).into()) } else { Ok(read) }
}

fn unusable(what: &'static str, why: String) -> RedisError {
    (ErrorKind::InvalidClientConfig, what, why).into()
}
