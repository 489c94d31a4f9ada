//! Every method of a lock and its guard, where nothing goes wrong.

use crate::support::{exists, locks_on, until_nothing_is_left, until_waiting};
use rlock_testing::Server;
use std::time::Duration;

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
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42");
    let first = lock.try_acquire().await.unwrap().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let late = lock.acquire_timeout(Duration::from_millis(30)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    let mut client = server.client();
    until_waiting(&mut client, 1).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    drop(second);
    until_nothing_is_left(&mut client, "orders:42").await;
}
