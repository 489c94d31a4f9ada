//! Between the server and the module's commands: what a command is, its registration, its settings and its replies.

#[cfg(feature = "panic-probe")]
mod call_probe;
pub mod client_address;
pub mod registration;
pub mod reply;
pub mod rights;
pub mod settings;
pub mod spec;
mod writer;

#[cfg(feature = "panic-probe")]
pub use call_probe::{call_as_a_module, call_within_event, error_within_event};
pub use reply::{ErrorLine, Reply};
pub use spec::{Argument, Audience, Command, KeyUse, Registration, Spec};
pub use writer::Writer;
