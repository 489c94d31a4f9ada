//! A network between clients and a server that can be made faulty. It needs the feature `network`, so that other tests
//! need no runtime.

mod line;
mod proxy;
#[cfg(test)]
mod tests;

pub use line::Sender;
pub use proxy::{Order, Proxy};
