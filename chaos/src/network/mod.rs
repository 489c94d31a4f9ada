//! What lies between clients and servers, and makes trouble there: the network, and the clock that a server goes by.

mod clock;
mod line;
mod proxy;
#[cfg(test)]
mod tests;

pub use clock::ServerClock;
pub use line::Sender;
pub use proxy::{Order, Proxy};
