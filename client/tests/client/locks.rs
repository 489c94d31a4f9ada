//! Every method of a lock and its guard, where nothing goes wrong.

use crate::support::{exists, locks_on, lost_before, until, until_nothing_is_left, until_waiting, url, waits_for};
use rlock_client::Locks;
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn a_lock_is_acquired_and_released() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert_eq!(client.hash("orders:42"), [(guard.holder().into_owned(), "1".to_owned())]);
    assert!(!guard.is_lost());
    assert!(guard.remaining() > Duration::from_secs(29), "{:?}", guard.remaining());
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

#[tokio::test]
async fn a_taken_lock_is_not_acquired_at_once_but_in_time() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42");
    let first = lock.try_acquire().await.unwrap().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let late = lock.acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    assert!(lock.acquire_timeout(Duration::ZERO).await.unwrap_err().is_timeout());
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_timeout(Duration::MAX).await }
    });
    until_waiting(&mut client, 1).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    drop(second);
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// Who asks first gets it first, and the key never goes in between.
#[tokio::test]
async fn the_lock_is_handed_over_in_order() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let first = locks.lock("orders:42").acquire().await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for number in 1..=20 {
        let (lock, tell) = (locks.lock("orders:42"), tell.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send(number).unwrap();
            guard.release().await.unwrap();
        });
        until_waiting(&mut client, number).await;
    }
    first.release().await.unwrap();
    for number in 1..=20 {
        assert_eq!(told.recv().await, Some(number));
    }
}

#[tokio::test]
async fn readers_share_and_a_writer_is_alone() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let prices = locks.read_write("prices");
    let readers = [prices.read().acquire().await.unwrap(), prices.read().acquire().await.unwrap()];
    assert!(prices.write().try_acquire().await.unwrap().is_none());
    let writer = tokio::spawn({
        let write = prices.write();
        async move { write.acquire().await }
    });
    until_waiting(&mut client, 1).await;
    assert!(prices.read().try_acquire().await.unwrap().is_none(), "a waiting writer stops new readers");
    for reader in readers {
        reader.release().await.unwrap();
    }
    let writer = writer.await.unwrap().unwrap();
    assert!(prices.read().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    assert!(!exists(&mut client, "prices"));
}

#[tokio::test]
async fn tokens_grow_with_each_grant() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let mut last = 0;
    for lock in [locks.lock("a"), locks.lock("a"), locks.read_write("b").read(), locks.read_write("b").write()] {
        let guard = lock.fenced().acquire().await.unwrap();
        let token = guard.token();
        assert!(token > last || token == 1, "{token} after {last}");
        assert_eq!(guard.tokens().collect::<Vec<_>>(), [token]);
        last = token;
        guard.release().await.unwrap();
    }
    assert_eq!(last, 2);
}

/// The watchdog keeps a lease alive for as long as the guard is there, and no longer.
#[tokio::test]
async fn a_lease_is_kept_alive() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_millis(300);
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let began = client.expiry("orders:42");
    until("it was renewed three times", || client.expiry("orders:42") > began + 300).await;
    assert!(!guard.is_lost());
    let mut lost = std::pin::pin!(guard.lost());
    assert!(futures_util::poll!(&mut lost).is_pending());
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
    assert!(futures_util::poll!(&mut lost).is_pending(), "what was released is not lost");
}

/// Somebody else takes the lock under the same holder right after its release, and keeps the lease that it asked for.
#[tokio::test]
async fn nothing_is_renewed_after_its_release() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Duration::from_millis(300);
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    let (guard, other) = (locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap());
    let holder = guard.holder().into_owned();
    guard.release().await.unwrap();
    client.run(&["RLOCK.ACQUIRE", "a", &holder, "60000"]);
    let (theirs, ours) = (client.expiry("a"), client.expiry("b"));
    until("other leases are renewed several times", || client.expiry("b") > ours + 500).await;
    assert_eq!(client.expiry("a"), theirs);
    other.release().await.unwrap();
}

#[tokio::test]
async fn a_fixed_lease_ends_and_the_guard_knows_before() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lease = Duration::from_secs(1);
    let began = Instant::now();
    let guard = locks.lock("orders:42").fixed_lease(lease).acquire().await.unwrap();
    lost_before(&guard, began + lease).await;
    assert!(guard.remaining().is_zero());
    until("the lease has ended", || !exists(&mut client, "orders:42")).await;
    assert!(guard.release().await.unwrap_err().is_lost());
}

/// A grant that came after a wait has the whole lease before it, not what is left since it was asked for.
#[tokio::test]
async fn a_lease_begins_with_the_grant_however_long_it_was_waited_for() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lease = Duration::from_millis(500);
    let first = locks.lock("orders:42").acquire().await.unwrap();
    let began = Instant::now();
    let waits = tokio::spawn({
        let lock = locks.lock("orders:42").fixed_lease(lease);
        async move { lock.acquire().await }
    });
    until_waiting(&mut client, 1).await;
    until("longer than a lease", || began.elapsed() > lease).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert!(second.remaining() > lease * 8 / 10, "{:?} left", second.remaining());
    second.release().await.unwrap();
}

#[tokio::test]
async fn names_and_owners_may_be_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let name = b"\0\xff{".to_vec();
    let guard = locks.lock(name.clone()).owner(b"\xfe\r\n").acquire().await.unwrap();
    assert_eq!(client.run(&[b"EXISTS".to_vec(), name]).as_int(), 1);
    assert!(format!("{guard:?}").contains("Guard"));
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

/// One connection does for all waits, one after the other, and is closed when nobody has waited for a while.
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

/// A program that waits for B while it holds A needs no connection that only the release of A would free.
#[tokio::test]
async fn any_number_may_wait_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let first = locks.lock("b").acquire().await.unwrap();
    let tasks: Vec<_> = (0..300)
        .map(|number| {
            let locks = locks.clone();
            tokio::spawn(async move {
                let a = locks.lock(format!("a{number}")).acquire().await.unwrap();
                let b = locks.lock("b").acquire().await.unwrap();
                b.release().await.unwrap();
                a.release().await.unwrap();
            })
        })
        .collect();
    until_waiting(&mut client, 300).await;
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    until_nothing_is_left(&mut client, "b").await;
}
