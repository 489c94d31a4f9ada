//! Tests of the client against real servers; each test has one or more. Each file shows a part of the client's promises.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "blocking")]
mod blocking;
mod breaks;
mod cancel;
mod cancelled_waits;
mod cluster;
#[cfg(feature = "commands")]
mod commands;
mod connecting;
mod errors;
mod examples;
mod forks;
mod half_open;
mod handing;
mod hostile;
mod lanes;
mod lead;
mod limits;
mod locks;
mod loss;
mod majority;
mod many_connects;
mod names;
mod no_sessions;
mod once;
mod owners;
mod proxy;
mod refused_connections;
mod replicas;
mod runtimes;
mod sentinel;
mod settle;
mod several;
mod spans;
mod superseded;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod work;
