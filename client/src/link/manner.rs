//! How servers are talked to: what all connections of a client have in common.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone)]
pub(crate) struct Manner {
    pub limits: Limits,
    /// What servers list its connections as; empty: as none.
    pub name: Arc<str>,
    /// Told when a server publishes something, on connections that can be told (RESP3).
    pub heard: Option<Arc<Notify>>,
    /// `None`: with the system's certificates.
    #[cfg(feature = "tls")]
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

#[cfg(test)]
impl Manner {
    pub(crate) fn of(limits: Limits) -> Self {
        Self {
            limits,
            name: Arc::from(""),
            heard: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Making a connection.
    pub connect: Duration,
    /// The answer to a request.
    pub answer: Duration,
    /// A connection for waits when nobody waits.
    pub idle: Duration,
}
