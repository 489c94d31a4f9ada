//! Histories of random clients on simulated locks, in virtual time: right ones, which the checker must let pass, and
//! such of locks with a flaw, which it must not.

mod client;
mod guards;
mod lock;
mod meddling;
mod sessions;
mod world;

pub use lock::Flaw;
pub use world::{Settings, history};
