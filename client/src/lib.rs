//! x
#![forbid(unsafe_code)]

mod acquire;
mod error;
mod farewell;
mod guard;
mod hold;
mod link;
mod lock;
mod locks;
mod options;
mod pause;
mod renewals;
mod request;
mod several;
mod watchdog;

pub use error::{Error, ErrorKind};
pub use guard::Guard;
pub use lock::{Lock, ReadWriteLock};
pub use locks::Locks;
pub use options::Options;
pub use redis;
pub use several::{Multi, Redlock, multi, redlock};
