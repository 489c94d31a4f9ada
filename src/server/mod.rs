//! The fence: every raw pointer, every `unsafe` and every function that the server calls is in this folder.
//!
//! It offers safe types to the commands: [`Context`] for the command under way, [`Str`] for what the server lends,
//! [`LockRecord`] for the keys of one lock, [`Writer`] for long replies. It decides nothing: what a lock may do is in [`crate::lock`].
//!
//! Two promises of the server carry everything here. All calls into the module happen on its main thread, one at a
//! time; and what it passes to a callback stays valid until that callback returns. One trap follows from the first:
//! opening a key or announcing an event can call *other* callbacks before it returns, so no key is kept open across
//! an announcement.

mod alloc;
mod api;
mod client_address;
mod cluster;
mod companions;
mod constants;
mod context;
mod effects;
mod entry;
mod followers;
mod key;
mod latency;
mod load;
mod lock_record;
mod main_thread;
mod panics;
mod publish;
mod registration;
mod replicate;
mod rights;
mod server_setting;
mod settings;
mod sight;
mod string;
mod version;
pub mod waiting;
mod whole_lock;
mod writer;

pub use context::{Context, Reply};
pub use entry::{Command, ErrorLine, Registration};
pub use load::{load, unload};
pub use lock_record::LockRecord;
pub use registration::{Argument, Audience, Change, Spec};
pub use sight::{fencing_token, left_ms, look_at};
pub use string::Str;
pub use writer::Writer;

/// The server's own types, as they cross the edge.
pub mod raw {
    pub use redis_module::raw::{RedisModuleCtx, RedisModuleString};
}
