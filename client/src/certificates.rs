//! What a program gives for TLS: whom it trusts, and who it is.

use std::fmt;

/// For TLS: the authorities to trust, and who this client is; all as PEM.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Certificates {
    /// Their certificates. `None`: those of the system.
    pub authorities: Option<Vec<u8>>,
    /// By which servers know this client that ask for one.
    pub identity: Option<Identity>,
}

/// A certificate, and the key that belongs to it.
#[derive(Clone)]
pub struct Identity {
    /// With those between it and its authority, if there are any.
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
