//! What the engine lacks: sockets, threads and the clock.

mod dial;
mod scout;
mod shared;
mod socket;
mod thread;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use dial::Dialer;
pub(crate) use scout::Sentinels;
pub(crate) use shared::{Servers, Shared};
pub(crate) use thread::Thread;
#[cfg(feature = "tls")]
pub(crate) use tls::configuration;
