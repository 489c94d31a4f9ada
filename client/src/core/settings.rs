//! What can be set for a client as a whole.

use crate::link::Limits;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a lease lasts, if a lock does not say otherwise.
    pub lease: Duration,
    /// For how long servers that do not answer are asked again.
    pub patience: Duration,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let limits =
            Limits { connect: Duration::from_secs(2), answer: Duration::from_secs(3), idle: Duration::from_secs(30) };
        Self { lease: Duration::from_secs(30), patience: Duration::from_secs(10), limits }
    }
}
