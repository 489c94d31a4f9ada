//! The connection for a client's events dies silently, in one direction or both. All other connections work, so nothing
//! else shows it.

use crate::proxy::{Proxy, Way};
use crate::support::{SLACK, until_nothing_is_left, until_waiting, waits_for};
use rlock_client::Locks;
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::timeout;

/// The maximum time until a silent session ends.
const TTL: Duration = Duration::from_secs(4);

async fn the_wait_is_served_without(ways: &[Way]) {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    let waits = waits_for(locks.lock("orders:42"));
    until_waiting(&mut client, 1).await;
    network.swallow_where_is_waited(ways);
    client.say("RLOCK.RELEASE orders:42 other");
    let served = timeout(TTL + SLACK, waits).await.expect("it is served in time");
    let guard = served.unwrap().unwrap();
    assert!(!guard.is_lost());
    // The next waiter waits on the current connection.
    let next = waits_for(locks.lock("orders:42"));
    until_waiting(&mut client, 1).await;
    guard.release().await.unwrap();
    timeout(TTL + SLACK, next).await.expect("so is the next").unwrap().unwrap().release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

#[tokio::test]
async fn nothing_is_heard_of_the_server() {
    the_wait_is_served_without(&[Way::Answers]).await;
}

#[tokio::test]
async fn nothing_gets_to_the_server() {
    the_wait_is_served_without(&[Way::Requests]).await;
}

#[tokio::test]
async fn nothing_passes() {
    the_wait_is_served_without(&[Way::Requests, Way::Answers]).await;
}
