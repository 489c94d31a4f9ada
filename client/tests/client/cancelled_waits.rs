//! Waits that end before the lock is free leave the queue, and cost little: no connection, little memory of the server, and
//! as many requests as it takes to leave.

use crate::proxy::Proxy;
use crate::support::{calls, locks_on, settled, until_nothing_is_left, until_waiting, waits_for};
use rlock_client::Locks;
use rlock_testing::{Client, Server};
use std::time::Duration;
use tokio::task::JoinSet;

const AT_ONCE: i64 = 200;
const ROUNDS: i64 = 50;
const REQUESTS_PER_WAIT: i64 = 2;

/// A client may have one connection for events, one for everything else, and lose one.
const CONNECTIONS_MAX: i64 = 3;

/// Far less than a connection takes.
const BYTES_PER_WAITER: i64 = 4_096;

/// For the connections themselves.
const BYTES: i64 = 512 * 1_024;

fn connections(client: &mut Client) -> i64 {
    client.info("stats").number("total_connections_received")
}

fn memory(client: &mut Client) -> i64 {
    client.info("memory").number("used_memory")
}

/// Most waits are dropped; a tenth of them reach their time limit.
#[tokio::test]
async fn ten_thousand_waits_that_end_cost_no_connection_little_memory_and_few_requests() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let memory_before = memory(&mut client);
    let locks = locks_on(&server).await;
    let connections_before = connections(&mut client);
    for round in 0..ROUNDS {
        let is_dropped = round % 10 > 0;
        let limit = if is_dropped { Duration::MAX } else { Duration::from_millis(300) };
        let mut waits = JoinSet::new();
        for _ in 0..AT_ONCE {
            let lock = locks.lock("orders:42");
            waits.spawn(async move { lock.acquire_timeout(limit).await.map(drop) });
        }
        if is_dropped {
            until_waiting(&mut client, AT_ONCE).await;
            let bytes = memory(&mut client) - memory_before;
            assert!(bytes <= BYTES + AT_ONCE * BYTES_PER_WAITER, "{AT_ONCE} waits take {bytes} bytes");
            waits.shutdown().await;
        }
        while let Some(waited) = waits.join_next().await {
            let error = waited.unwrap().unwrap_err();
            assert!(error.is_timeout(), "{error}");
        }
        until_waiting(&mut client, 0).await;
    }
    settled(&locks).await;
    let requests = calls(&mut client, "rlock.cancel") + calls(&mut client, "rlock.release");
    let more_connections = connections(&mut client) - connections_before;
    let all = AT_ONCE * ROUNDS;
    let summary = format!("{all} waits: {requests} requests to leave, {more_connections} connections");
    assert!(requests <= all * REQUESTS_PER_WAIT && more_connections <= CONNECTIONS_MAX, "{summary}");
    assert_eq!(client.figure("grants"), 1, "the lock was another holder's all the time");
    client.say("RLOCK.RELEASE orders:42 other");
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// The request by which the wait leaves the queue is lost. The session lives on, and would keep the place.
#[tokio::test]
async fn a_wait_leaves_the_queue_though_the_connection_breaks_when_it_is_dropped() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    for stays in 0..10 {
        let stays: Vec<_> = (0..stays % 2).map(|_| waits_for(locks.lock("orders:42"))).collect();
        let waits = waits_for(locks.lock("orders:42"));
        let kept = i64::try_from(stays.len()).unwrap();
        until_waiting(&mut client, kept + 1).await;
        network.cut_at_request();
        waits.abort();
        until_waiting(&mut client, kept).await;
        stays.iter().for_each(tokio::task::JoinHandle::abort);
        until_waiting(&mut client, 0).await;
    }
    client.say("RLOCK.RELEASE orders:42 other");
    until_nothing_is_left(&mut client, "orders:42").await;
}
