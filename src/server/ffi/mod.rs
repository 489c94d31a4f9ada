//! The server's functions and types, each in a safe form. Nothing here knows what a lock is.

mod alloc;
pub mod api;
pub mod call;
pub mod context;
pub mod key;
pub mod latency;
pub mod string;
pub mod this_server;
