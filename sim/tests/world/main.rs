//! The client that ships against the engine that ships, in one world: one seed moves programs, servers, the network and
//! the clocks, and after each move rlock's promises are checked.
//!
//! - `world`: the moves, time, and the effects of both sides; within it `callers`, `network` and `failovers`
//! - `program` and `server`: one of each; `clock`
//! - `once`: the promises about answers
//! - `promises`: the promises after each move, and after all faults have ended
//! - `histories`: random ones. `HISTORY_SEED` repeats one seed's, `HISTORIES` multiplies their number. A history that
//!   fails is shortened to the moves that it needs.
//! - `protection`: failovers, with each half of the protection switched off
//! - `explorer`: every history of small worlds. `EXPLORE_MOVES` makes them longer by this many moves.
//! - `examples`: single histories
//! - `traces`: what becomes of one lock, as steps of docs/spec/lock.qnt

mod clock;
mod examples;
mod explorer;
mod histories;
mod once;
mod program;
mod promises;
mod protection;
mod server;
mod traces;
mod world;
