//! However many of a process wait, they have the same few connections, and the server has little to remember of each.

use crate::support::{exists, locks_on, until_nothing_is_left, until_waiting, waits_for};
use futures_util::future::join_all;
use rlock_testing::{Client, PATIENCE, Server};
use tokio::time::timeout;

const WAITERS: i64 = 200;

/// One for what is told, one for what callers ask for, one for the background.
const CONNECTIONS: i64 = 3;

/// Far less than a connection takes.
const BYTES_PER_WAITER: i64 = 4_096;

/// For the connections themselves.
const BYTES: i64 = 512 * 1_024;

/// Connections and bytes that the server has.
fn in_use(client: &mut Client) -> (i64, i64) {
    (client.info("clients").number("connected_clients"), client.info("memory").number("used_memory"))
}

#[tokio::test]
async fn two_hundred_waits_have_three_connections_and_little_memory() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let before = in_use(&mut client);
    let locks = locks_on(&server).await;
    // Some on one lock, some on locks of their own; some on a clone of the client.
    let mut waits = Vec::new();
    for number in 0..WAITERS / 2 {
        let own = format!("own:{number}");
        client.run(&["RLOCK.ACQUIRE", &own, "other", "600000"]);
        waits.push(waits_for(locks.lock("orders:42")));
        waits.push(waits_for(locks.clone().lock(own)));
    }
    until_waiting(&mut client, WAITERS).await;
    let now = in_use(&mut client);
    let (connections, bytes) = (now.0 - before.0, now.1 - before.1);
    let told = format!("{WAITERS} waits have {connections} connections and take {bytes} bytes");
    assert!(connections <= CONNECTIONS && bytes <= BYTES + WAITERS * BYTES_PER_WAITER, "{told}");
    client.say("FLUSHALL");
    // In the order in which the server was asked, which need not be that of the tasks.
    let turns = waits.into_iter().map(async |waits| waits.await.unwrap().unwrap().release().await.unwrap());
    timeout(PATIENCE, join_all(turns)).await.expect("all have their turn");
    until_nothing_is_left(&mut client, "orders:42").await;
    assert!(!exists(&mut client, "own:0"));
}
