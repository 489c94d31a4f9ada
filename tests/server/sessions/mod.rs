//! Sessions: waiting by tickets, one connection for any number of waits. Each file shows one part of what is promised.

mod followers;
mod grammar;
mod life;
mod limits;
mod listing;
mod owners;
mod seen;
mod taking_back;
mod telling;
mod tickets;
mod unfit_servers;
