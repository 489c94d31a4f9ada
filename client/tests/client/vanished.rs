//! A host that vanished without a word, with clients of its own in a queue: those behind them are served soon, however
//! many they were and whatever leases they have.

use crate::proxy::Proxy;
use crate::support::{SLACK, locks_on, until_nothing_is_left, until_waiting, waits_for};
use rlock_client::Locks;
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::timeout;

/// How long a session lasts of which nothing is heard.
const TTL: Duration = Duration::from_secs(4);

/// The lease of a grant that nobody has confirmed yet.
const LEASE: Duration = Duration::from_secs(3);

const WAITERS: i64 = 5;

/// So many clients of one host wait, and one of another host behind them. The former host vanishes, and the lock gets
/// free.
async fn the_living_are_served_within(limit: Duration, clients: usize) {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let network = Proxy::to(&server);
    let mut dead = Vec::new();
    for _ in 0..clients {
        dead.push(Locks::connect(network.url()).await.unwrap());
    }
    let mut waiting = Vec::new();
    for (locks, number) in dead.iter().cycle().zip(1..=WAITERS) {
        waiting.push(waits_for(locks.lock("orders:42")));
        until_waiting(&mut client, number).await;
    }
    let living = waits_for(locks_on(&server).await.lock("orders:42"));
    until_waiting(&mut client, WAITERS + 1).await;
    network.vanish();
    client.say("RLOCK.RELEASE orders:42 other");
    let served = timeout(limit + SLACK, living).await.expect("it is served soon");
    served.unwrap().unwrap().release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
    for waits in waiting {
        waits.abort();
        assert!(!matches!(waits.await, Ok(Ok(_))), "a grant got to the host that is gone");
    }
}

/// The first of them may be granted the lock before the silence is noticed. With that lease, or with the session, all is
/// over.
#[tokio::test]
async fn five_waits_of_one_client() {
    the_living_are_served_within(TTL + Duration::from_secs(1), 1).await;
}

/// Another client's silence may not have been noticed when the lease of the first is over; then its own has been.
#[tokio::test]
async fn one_wait_each_of_five_clients() {
    the_living_are_served_within(LEASE + TTL, 5).await;
}
