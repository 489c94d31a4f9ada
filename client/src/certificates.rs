//! A program's settings for TLS: trusted authorities, and the client's identity.

use std::fmt;

/// For TLS: the authorities to trust, and this client's certificate; all as PEM.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Certificates {
    /// The certificates of the authorities. `None`: the system's.
    pub authorities: Option<Vec<u8>>,
    /// For servers that require client certificates.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// With intermediate certificates, if there are any.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
