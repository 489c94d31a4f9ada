//! Sessions: waiting by tickets, one connection for any number of waits. Each file shows one part of what is promised.

mod delivery;
mod followers;
mod grammar;
mod life;
mod limits;
mod listing;
mod owners;
mod seen;
mod taking_back;
mod tickets;
mod unfit_servers;

/// What the module keeps: how many sessions, tickets, events that are not acknowledged, and waiters.
pub fn kept(client: &mut rlock_testing::Client) -> [i64; 4] {
    client.figures(["sessions", "tickets", "events_unacknowledged", "waiters"])
}
