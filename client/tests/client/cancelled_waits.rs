//! Waits that end before the lock is free cost little: no connection, and as many requests as it takes to leave the
//! queue.

use crate::proxy::Proxy;
use crate::support::{calls, locks_on, settled, until_nothing_is_left, until_waiting, waits_for};
use rlock_client::Locks;
use rlock_testing::{Client, Server};
use tokio::task::JoinSet;

const AT_ONCE: i64 = 200;
const ROUNDS: i64 = 50;
const REQUESTS_PER_WAIT: i64 = 2;

/// A client may have one connection for what is told, one for all else, and lose one.
const CONNECTIONS_MAX: i64 = 3;

fn connections(client: &mut Client) -> i64 {
    client.info("stats").number("total_connections_received")
}

#[tokio::test]
async fn ten_thousand_waits_that_are_dropped_cost_no_connection_and_few_requests() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let locks = locks_on(&server).await;
    let connections_before = connections(&mut client);
    for _ in 0..ROUNDS {
        let mut waits = JoinSet::new();
        for _ in 0..AT_ONCE {
            let lock = locks.lock("orders:42");
            waits.spawn(async move { lock.acquire().await.map(drop) });
        }
        until_waiting(&mut client, AT_ONCE).await;
        waits.shutdown().await;
        until_waiting(&mut client, 0).await;
    }
    settled(&locks).await;
    let requests = calls(&mut client, "rlock.cancel") + calls(&mut client, "rlock.release");
    let more_connections = connections(&mut client) - connections_before;
    let all = AT_ONCE * ROUNDS;
    let told = format!("{all} waits: {requests} requests to leave, {more_connections} connections");
    assert!(requests <= all * REQUESTS_PER_WAIT && more_connections <= CONNECTIONS_MAX, "{told}");
    assert_eq!(client.figure("grants"), 1, "the lock was somebody else's all the time");
    client.say("RLOCK.RELEASE orders:42 other");
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// A program that is about to end drops its waits and settles: by then they have left the queue.
#[tokio::test]
async fn who_has_settled_waits_no_more() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let locks = locks_on(&server).await;
    for _ in 0..20 {
        let lock = locks.lock("orders:42");
        let mut waits: Vec<_> = (0..10).map(|_| Box::pin(lock.acquire())).collect();
        for wait in &mut waits {
            assert!(futures_util::poll!(wait).is_pending());
        }
        until_waiting(&mut client, 10).await;
        drop(waits);
        settled(&locks).await;
        assert_eq!(client.figure("waiters"), 0);
    }
}

/// The same by time limits, which all end at about the same time.
#[tokio::test]
async fn waits_whose_time_is_up_cost_no_connection_and_few_requests() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let locks = locks_on(&server).await;
    let connections_before = connections(&mut client);
    let mut waits = JoinSet::new();
    for _ in 0..AT_ONCE {
        let lock = locks.lock("orders:42");
        waits.spawn(async move { lock.acquire_timeout(std::time::Duration::from_millis(500)).await.map(drop) });
    }
    while let Some(waited) = waits.join_next().await {
        let error = waited.unwrap().unwrap_err();
        assert!(error.is_timeout(), "{error}");
    }
    settled(&locks).await;
    let requests = calls(&mut client, "rlock.cancel") + calls(&mut client, "rlock.release");
    let more_connections = connections(&mut client) - connections_before;
    let told = format!("{AT_ONCE} waits: {requests} requests to leave, {more_connections} connections");
    assert!(requests <= AT_ONCE * REQUESTS_PER_WAIT && more_connections <= CONNECTIONS_MAX, "{told}");
    client.say("RLOCK.RELEASE orders:42 other");
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// What is lost is the request by which the wait leaves the queue; the session lives on, and would keep the place.
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
