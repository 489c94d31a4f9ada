//! The engine against a naive server, over a network that does what it likes.
//!
//! - `world` is a program, the network and the servers, and what must be true after each move; `server` is one of them.
//! - `histories` are random ones. `HISTORY_SEED` leads one seed's once more, `HISTORIES` says how many there are.
//! - `explorer` has all short ones of small worlds. `EXPLORE_MOVES` makes them longer by so many.
//! - `examples` are single stories.
//!
//! # Mutants
//! Broken in these ways, one at a time, the engine fails here:
//!
//! | what it does wrong | where that shows |
//! |---|---|
//! | counts a deadline from the answer | explored, calm and rough histories |
//! | makes a lost guard good by a renewal that comes too late | rough histories |
//! | does not give back what a dropped guard had | explored, calm histories |
//! | does not cancel the wait of somebody who has gone | calm histories |
//! | does not report a loss; does not believe the server's word of it | explored, rough histories |
//! | tells a release whose answer is lost as a loss, or as done | the example, rough histories |
//! | does not give back what an answer grants to somebody who has gone | explored, calm histories |
//! | does not give back what a late answer has granted besides | the example |
//! | does not give back what CANCEL finds granted | calm histories |
//! | fails a wait whose own earlier request took its place | the example |
//! | lets an owner's attempts ask at the same time | calm histories of owners |
//! | does not open a session again | rough histories |
//! | waits in a session that has ended | the example, rough histories |
//! | does not tell an attempt at its end | all histories |
//! | lets a former master's word count | two masters |
//! | renews when the lease is over | explored, calm histories |
//! | lets the guard of one owner take another's hold, or shorten its lease | the examples, histories of owners |
//! | lets a newcomer wait before one who tries still | calm histories |
//!
//! Not found: an event that is told twice and taken for another one, since whose ticket it was waits no more.

mod examples;
mod explorer;
mod histories;
mod server;
mod world;
