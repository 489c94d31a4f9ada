//! Locks and guards where nothing goes wrong, in Rust only. clients/conformance/tests/conformance/locks.rs has the promises
//! of clients in all languages.

use crate::support::{calls, exists, locks_on, until, until_waiting, url, waits_for};
use rlock_client::Locks;
use rlock_testing::Server;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// A name or an owner can have any type that has bytes, and any bytes.
#[tokio::test]
async fn names_and_owners_are_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let (owned, bytes) = (String::from("a"), b"a".to_vec());
    let all = [
        locks.lock("a"),
        locks.lock(&owned),
        locks.lock(owned.clone()),
        locks.lock(b"a"),
        locks.lock(&bytes),
        locks.lock(&bytes[..]),
        locks.lock(bytes.clone()),
        locks.read_write(&owned).read().owner(b"\xfe\r\n"),
    ];
    for lock in all {
        let guard = lock.acquire().await.unwrap();
        assert!(exists(&mut client, "a"));
        guard.release().await.unwrap();
    }
    let odd = b"\0\xff{".to_vec();
    let guard = locks.lock(odd.clone()).acquire().await.unwrap();
    assert_eq!(client.run(&[b"EXISTS".to_vec(), odd]).as_int(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tokens_grow_with_each_grant() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let mut last = 0;
    for lock in [locks.lock("a"), locks.lock("a"), locks.read_write("b").read(), locks.read_write("b").write()] {
        let guard = lock.fenced().acquire().await.unwrap();
        let token = guard.token();
        assert!(token > last, "{token} after {last}");
        assert_eq!(guard.tokens().collect::<Vec<_>>(), [token]);
        last = token;
        guard.release().await.unwrap();
    }
    let permit = locks.permits("gpu", 1).fenced().acquire().await.unwrap();
    assert!(permit.token() > last);
}

/// Another client takes the lock under the same holder right after its release, and keeps the lease that it requested.
#[tokio::test]
async fn nothing_is_renewed_after_its_release() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_millis(300);
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    let (guard, other) = (locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap());
    let (holder, mut lost) = (guard.holder().into_owned(), pin!(guard.lost()));
    assert!(futures_util::poll!(&mut lost).is_pending());
    guard.release().await.unwrap();
    client.run(&["RLOCK.ACQUIRE", "a", &holder, "60000"]);
    let (theirs, ours) = (client.expiry("a"), client.expiry("b"));
    until("other leases are renewed several times", || client.expiry("b") > ours + 500).await;
    assert_eq!(client.expiry("a"), theirs);
    assert!(futures_util::poll!(&mut lost).is_pending(), "what was released is not lost");
    other.release().await.unwrap();
}

/// A lease without renewals has its whole time left when it is granted, however long the wait was.
#[tokio::test]
async fn a_fixed_lease_begins_with_the_grant() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lease = Duration::from_secs(2);
    let first = locks.lock("orders:42").acquire().await.unwrap();
    let began = Instant::now();
    let lock = locks.lock("orders:42").fixed_lease(lease);
    let waits = tokio::spawn(async move { lock.acquire_timeout(Duration::MAX).await });
    until_waiting(&mut client, 1).await;
    until("longer than a lease", || began.elapsed() > lease).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert!(second.remaining() > lease * 8 / 10, "{:?} left", second.remaining());
    // If the grant was reported late, the client has renewed the lease once, so that it is whole. No other renewal follows.
    let renewals = calls(&mut client, "rlock.renew");
    assert!(renewals <= 1, "{renewals}");
    second.lost().await;
    assert_eq!(calls(&mut client, "rlock.renew"), renewals);
}

/// The client's request for events was so long ago that little may be left of the lease of a grant.
#[tokio::test]
async fn a_lease_of_which_little_may_be_left_is_renewed_first() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_secs(1);
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    client.say("RLOCK.ACQUIRE a other 600000");
    let waits = waits_for(locks.lock("a"));
    until("it has asked three times", || calls(&mut client, "rlock.events") >= 5).await;
    client.say("RLOCK.RELEASE a other");
    let guard = waits.await.unwrap().unwrap();
    assert!(guard.remaining() > lease / 2, "{:?}", guard.remaining());
    guard.release().await.unwrap();
}

/// Nothing runs on when a client and its guards are gone.
#[tokio::test]
async fn a_client_ends_with_its_last_guard() {
    let server = Server::start();
    let mut client = server.client();
    let before = client.say("CLIENT LIST").as_text().lines().count();
    let locks = locks_on(&server).await;
    let guard = locks.lock("orders:42").lease(Duration::from_millis(100)).acquire().await.unwrap();
    drop(locks);
    let began = client.expiry("orders:42");
    until("it is renewed all the same", || client.expiry("orders:42") > began + 100).await;
    drop(guard);
    until("all connections are closed", || client.say("CLIENT LIST").as_text().lines().count() == before).await;
    assert!(!exists(&mut client, "orders:42"));
}

/// One connection serves all waits, one after the other, and is closed after a while without waits.
#[tokio::test]
async fn connections_for_waits_are_reused_and_closed_when_idle() {
    let server = Server::start();
    let mut client = server.client();
    let idle = Duration::from_secs(2);
    let locks = Locks::options().idle_timeout(idle).connect_to(url(&server)).await.unwrap();
    let with_one = client.say("CLIENT LIST").as_text().lines().count();
    let holder = locks.lock("orders:42").acquire().await.unwrap();
    let connections = |client: &mut rlock_testing::Client| client.info("stats").number("total_connections_received");
    let before = connections(&mut client);
    for _ in 0..10 {
        let waits = waits_for(locks.lock("orders:42"));
        until_waiting(&mut client, 1).await;
        waits.abort();
        until_waiting(&mut client, 0).await;
    }
    assert_eq!(connections(&mut client), before + 1);
    until("it is closed", || client.say("CLIENT LIST").as_text().lines().count() == with_one).await;
    holder.release().await.unwrap();
}
