//! Waiting for a lock. What is promised holds for blocked clients, for tickets, and where both stand in one queue: so each
//! promise is one function, and each of the three a test of it.

mod bounded;
mod followers;
mod grace;
mod handing_over;
pub mod killed;
mod leaving;
mod moving_on;
pub mod scene;
mod unfit_servers;

/// Makes tests of promises: `blocked_clients::…`, `tickets::…` and `both::…`.
macro_rules! for_all_waiters {
    ($($promise:ident),* $(,)?) => {
        for_all_waiters!(blocked_clients BlockedClients $($promise)*);
        for_all_waiters!(tickets Tickets $($promise)*);
        for_all_waiters!(both Both $($promise)*);
    };
    ($name:ident $waiters:ident $($promise:ident)*) => {
        mod $name {
            use crate::waiting::scene::{Scene, Waiters};
            $(#[test]
            fn $promise() {
                super::$promise(&mut Scene::at(&rlock_testing::Server::start(), Waiters::$waiters));
            })*
        }
    };
}
pub(crate) use for_all_waiters;

/// Of times of which some may have met a machine that stood still.
pub fn median(all: impl IntoIterator<Item = i64>) -> i64 {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_unstable();
    all[all.len() / 2]
}
