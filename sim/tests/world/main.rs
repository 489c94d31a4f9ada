//! The client that ships against the engine that ships, in one world: programs, servers, the network and the clocks are
//! moved by one seed, and after each move is checked what rlock promises.
//!
//! - `world`: the moves, time, and the effects of both sides; within it `callers`, `network` and `failovers`
//! - `program` and `server`: one of each; `clock`
//! - `once`: what must be true of answers
//! - `promises`: what must be true after each move, and when all faults have ended
//! - `histories`: random ones. `HISTORY_SEED` leads one seed's again, `HISTORIES` says how many times as many there are. One
//!   that fails is shortened to the moves that it needs.
//! - `protection`: failovers, with each half of the protection switched off
//! - `explorer`: every history of small worlds. `EXPLORE_MOVES` makes them longer by so many moves.
//! - `examples`: single stories
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
