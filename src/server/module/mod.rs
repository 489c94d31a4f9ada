//! The module as a whole: how it is loaded, how its commands are entered, and what INFO says of it.

mod entry;
mod info;
mod load;

pub use load::{load, unload};
