//! TLS, with certificates that are read only once: the system's, or the program's.

use crate::certificates::{Certificates, Identity};
use rlock_client_core::error::{Cause, Error, ErrorKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io;
use std::sync::{Arc, OnceLock};

static WITH_THE_SYSTEMS: OnceLock<Arc<ClientConfig>> = OnceLock::new();

pub(super) fn begin(config: Option<Arc<ClientConfig>>, host: &str) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::other(format!("is at a host that no certificate can be for: {error}")))?;
    let config = config.unwrap_or_else(|| WITH_THE_SYSTEMS.get_or_init(with_the_systems).clone());
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    // It buffers everything until it is sent.
    connection.set_buffer_limit(None);
    Ok(connection)
}

pub(super) const SPEAKS_NO_TLS: &str = "speaks no TLS at this port: give its address as redis://, or the port for TLS";

/// A TLS failure that the next connection would have too, in words that follow the server's name.
pub(super) fn refusal(error: &io::Error) -> Option<String> {
    use rustls::AlertDescription::{
        BadCertificate, CertificateExpired, CertificateRequired, CertificateUnknown, CloseNotify, DecryptError,
        InternalError, ProtocolVersion, UnknownCA, UserCanceled,
    };
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, NoCertificatesPresented, PeerIncompatible};
    Some(match error.get_ref()?.downcast_ref()? {
        why @ (InvalidCertificate(_) | NoCertificatesPresented) => format!(
            "is not trusted ({why}): trust its certificate's authority, and give the name that the certificate is for"
        ),
        AlertReceived(CertificateRequired) => "asks for a client certificate: give one, and its key".to_owned(),
        AlertReceived(
            alert @ (UnknownCA | DecryptError | BadCertificate | CertificateExpired | CertificateUnknown),
        ) => format!("refuses the client certificate (TLS alert {alert:?}): look at that, and at its tls-ca-cert-file"),
        AlertReceived(ProtocolVersion) => "has no TLS 1.3, which is needed: look at its tls-protocols".to_owned(),
        AlertReceived(CloseNotify | InternalError | UserCanceled) => return None,
        AlertReceived(alert) => format!("breaks off TLS (alert {alert:?}): its log may say why"),
        PeerIncompatible(why) => format!("speaks another TLS ({why:?}): look at its tls-protocols"),
        InvalidMessage(_) => SPEAKS_NO_TLS.to_owned(),
        _ => return None,
    })
}

fn with_the_systems() -> Arc<ClientConfig> {
    Arc::new(ClientConfig::builder().with_root_certificates(of_the_system()).with_no_client_auth())
}

fn of_the_system() -> RootCertStore {
    let mut certificates = RootCertStore::empty();
    // If an unreadable one is needed, the server's error says so.
    certificates.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    certificates
}

/// With the program's certificates.
pub(crate) fn configuration(certificates: Option<&Certificates>) -> Result<Option<Arc<ClientConfig>>, Error> {
    choose_cryptography();
    certificates.map(with_those).transpose()
}

fn with_those(Certificates { authorities, identity }: &Certificates) -> Result<Arc<ClientConfig>, Error> {
    let mut trusted = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in chain(pem, "no authority's certificate in PEM")? {
                trusted.add(certificate).map_err(|error| unusable("an authority's certificate", &error))?;
            }
        }
        None => trusted = of_the_system(),
    }
    let config = ClientConfig::builder().with_root_certificates(trusted);
    let Some(Identity { certificate, key }) = identity else {
        return Ok(Arc::new(config.with_no_client_auth()));
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("no private key in PEM", &error))?;
    let config = config.with_client_auth_cert(chain(certificate, "no client certificate in PEM")?, key);
    config.map(Arc::new).map_err(|error| unusable("the client certificate and its key", &error))
}

fn chain(pem: &[u8], none: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| unusable(none, &error))?;
    if read.is_empty() { Err(Error::configuration("certificates", none)) } else { Ok(read) }
}

fn unusable(what: &str, why: &dyn std::fmt::Display) -> Error {
    let why = Cause::from(io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {why}")));
    Error::because(ErrorKind::Configuration, "certificates", why)
}

/// rustls wants one choice for the whole process. The program's own choice takes precedence.
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread was faster, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
