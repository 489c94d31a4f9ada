//! Sessions: waiting by tickets, one connection for any number of waits. Each file shows one part of what is promised.

mod grammar;
mod limits;
mod metadata;
mod moving_on;
mod owners;
mod serving;
mod telling;
mod tickets;
mod unfit_servers;
