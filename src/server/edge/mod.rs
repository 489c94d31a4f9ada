//! Between the server and the module's commands: what a command is, its settings, its replies, and the caller's user.

pub mod command;
pub mod reply;
pub mod settings;
pub mod users;

pub use command::{Command, Registration};
pub use reply::{Reply, Writer};
