//! Tests against a real server, one per test, started on a unix socket and a free port. Each file shows one part of
//! what the module promises.
#![allow(clippy::unwrap_used)]

mod break_lock;
mod cluster;
mod differential;
mod followers;
mod grace;
mod grammar;
mod hostile;
mod info;
mod inspect;
mod layout;
mod loading;
mod metadata;
mod notifications;
mod once;
#[cfg(feature = "panic-probe")]
mod other_modules;
mod pages;
#[cfg(feature = "panic-probe")]
mod panics;
mod permits;
mod plain_locks;
mod publishing;
mod queues;
mod read_write_locks;
mod replication;
mod selected_database;
mod sessions;
mod several_locks;
mod tokens;
mod waiting;
