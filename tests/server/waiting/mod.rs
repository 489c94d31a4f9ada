//! Waiting for a lock. Each promise holds for blocked clients, for tickets, and where both wait in one queue. So each
//! promise is one function with two tests: in one of them the first waiter is a client, the second a ticket, and so on; in
//! the other the first is a ticket. Each place in a queue is a client's in one test and a ticket's in the other.

mod bounded;
mod followers;
mod grace;
mod handing_over;
mod killed;
mod leaving;
mod moving_on;
mod places;
pub mod scene;
mod unfit_servers;

/// Makes two tests of each promise: `client_first::…` and `ticket_first::…`.
macro_rules! for_all_waiters {
    ($($promise:ident),* $(,)?) => {
        for_all_waiters!(client_first Client $($promise)*);
        for_all_waiters!(ticket_first Ticket $($promise)*);
    };
    ($name:ident $first:ident $($promise:ident)*) => {
        mod $name {
            use crate::waiting::scene::{First, Scene};
            $(#[test]
            fn $promise() {
                super::$promise(&mut Scene::at(&rlock_testing::Server::start(), First::$first));
            })*
        }
    };
}
pub(crate) use for_all_waiters;

/// The median of times: some may include a stall of the machine.
pub fn median(all: impl IntoIterator<Item = i64>) -> i64 {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_unstable();
    all[all.len() / 2]
}
