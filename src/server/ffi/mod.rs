//! The server's functions and types, each in a safe form. Nothing here knows what a lock is.

mod alloc;
pub mod api;
pub mod call;
pub mod cluster;
pub mod context;
pub mod key;
pub mod latency;
pub mod main_thread;
pub mod panics;
pub mod string;
pub mod version;
