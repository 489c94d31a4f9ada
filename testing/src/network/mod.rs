//! The network between clients and a server, of which all sorts of trouble can be had. It is for whoever asks for the
//! feature `network`: the others need no runtime.

mod line;
mod proxy;
#[cfg(test)]
mod tests;

pub use line::Sender;
pub use proxy::{Order, Proxy};
