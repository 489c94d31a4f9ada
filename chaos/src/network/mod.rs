//! What lies between clients and servers, and makes trouble there: the network, and the clock that a server goes by.

mod clock;
mod proxy;

pub use clock::ServerClock;
pub use proxy::{Direction, HalfOpen, Proxy};
