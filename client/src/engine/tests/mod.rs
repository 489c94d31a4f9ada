//! The engine against a naive server, over a network that does what it likes.
//!
//! - `world` is a program, the network and the servers, and what must be true after each move; `server` is one of them.
//! - `histories` are random ones. `HISTORY_SEED` leads one seed's once more, `HISTORIES` says how many there are.
//! - `explorer` has all short ones of small worlds. `EXPLORE_MOVES` makes them longer by so many.
//! - `examples` are single stories.

mod examples;
mod explorer;
mod histories;
mod server;
mod world;
