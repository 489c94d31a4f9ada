//! Requests to whichever server a lock is on, over connections that are made when needed. What a lock is and how long
//! it is held is not known here.

mod connection;
mod connections;
mod doubt;
mod fault;
mod gathering;
mod links;
mod manner;
mod node;
mod opening;
pub(crate) mod request;
mod route;
mod session;
mod shared_connection;
mod single_flight;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use connection::{Connection, send_all};
pub(crate) use doubt::{Doubt, LateAnswer};
pub(crate) use fault::Fault;
pub(crate) use links::{Answer, Links};
pub(crate) use manner::{Limits, Manner};
pub(crate) use node::Node;
pub(crate) use route::{Cluster, Route, Sentinels};
pub(crate) use session::{Session, Ticket, Told};
#[cfg(feature = "tls")]
pub(crate) use tls::configuration;
