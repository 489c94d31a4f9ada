//! The boundary: every raw pointer, every `unsafe` and every function that the server calls is in this folder.
//!
//! It decides nothing: [`rlock_core::lock`] decides what a lock may do, and [`rlock_core::waiting`] which waiter is next. Its
//! modules import one way: `ffi` ← `edge` ← `keys` ← `waiting` ← `info` and `load`.
//!
//! Everything here relies on two promises of the server: all calls into the module happen on its main thread, one at a
//! time; and what it passes to a callback stays valid until that callback returns. One trap follows from the first:
//! opening a key or announcing an event can call *other* callbacks before it returns, so no key is kept open across
//! an announcement.

mod edge;
mod ffi;
mod info;
mod keys;
mod load;
#[cfg(feature = "panic-probe")]
pub mod probes;
pub mod waiting;

pub use edge::{Command, Registration, Reply, Writer, reply};
pub use ffi::context::Context;
pub use ffi::latency;
pub use ffi::string::Str;
pub use keys::{answer, fencing_token, left_ms, take_snapshot};
pub use load::load;
