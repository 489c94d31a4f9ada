//! Sessions: waiting by tickets, one connection for any number of waits. Each file shows one part of what is promised.

mod grammar;
mod limits;
mod metadata;
mod owners;
mod telling;
mod tickets;
