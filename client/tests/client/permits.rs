//! Permits: at most so many guards at a time.

use crate::support::{calls, exists, locks_on, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{Kind, Locks};
use rlock_testing::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[tokio::test]
async fn so_many_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let two = locks.permits("gpu", 2).fenced();
    let first = two.acquire().await.unwrap();
    let second = two.try_acquire().await.unwrap().unwrap();
    assert!(second.token() > first.token());
    assert!(two.try_acquire().await.unwrap().is_none());
    let late = two.acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    // Each is judged by his own limit.
    assert!(locks.permits("gpu", 1).try_acquire().await.unwrap().is_none());
    locks.permits("gpu", 3).try_acquire().await.unwrap().unwrap().release().await.unwrap();
    let waits = tokio::spawn(async move { two.acquire().await });
    until_waiting(&mut client, 1).await;
    first.release().await.unwrap();
    let third = waits.await.unwrap().unwrap();
    assert!(third.token() > second.token());
    for guard in [second, third] {
        guard.release().await.unwrap();
    }
    assert!(!exists(&mut client, "gpu"));
}

/// Those who work at the same time are never more than that, and all come to work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_few_permits() {
    const LIMIT: usize = 3;
    let server = Server::start();
    let locks = locks_on(&server).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..30 {
        let (locks, inside, most) = (locks.clone(), inside.clone(), most.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let guard = locks.permits("gpu", 3).acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!((2..=LIMIT).contains(&most.load(SeqCst)), "{most:?}");
    assert_eq!(server.client().say("DBSIZE").as_int(), 0);
}

#[tokio::test]
async fn a_permit_is_kept_and_its_loss_is_told() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(Duration::from_secs(1)).connect_to(url(&server)).await.unwrap();
    let kept = locks.permits("gpu", 2).acquire().await.unwrap();
    let taken = locks.permits("gpu", 2).acquire().await.unwrap();
    let began = client.expiry("gpu");
    until("they were renewed for longer than a lease", || client.expiry("gpu") > began + 1_000).await;
    assert_eq!(client.run(&["ZREM", "gpu", &taken.holder()]).as_int(), 1);
    taken.lost().await;
    assert!(taken.release().await.unwrap_err().is_lost());
    assert!(!kept.is_lost());
    kept.release().await.unwrap();
}

#[tokio::test]
async fn permits_are_no_locks() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let _permit = locks.permits("gpu", 2).acquire().await.unwrap();
    let _lock = locks.lock("a").acquire().await.unwrap();
    let error = locks.lock("gpu").acquire().await.unwrap_err();
    assert!(error.is_wrong_kind() && error.kind_of_lock() == Some(Kind::Permits), "{error}");
    let error = locks.permits("a", 2).acquire().await.unwrap_err();
    assert!(error.is_wrong_kind() && error.kind_of_lock() == Some(Kind::Plain), "{error}");
}

/// Of any kind of lock.
#[tokio::test]
async fn who_wants_a_short_queue_is_told_at_once_that_it_is_not() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let held = (locks.permits("gpu", 1).acquire().await.unwrap(), locks.lock("a").acquire().await.unwrap());
    let (permit, lock) = (locks.permits("gpu", 1).max_waiters(1), locks.lock("a").max_waiters(1));
    let waits =
        (tokio::spawn(async move { permit.acquire().await }), tokio::spawn(async move { lock.acquire().await }));
    until_waiting(&mut client, 2).await;
    let error = locks.permits("gpu", 1).max_waiters(1).acquire().await.unwrap_err();
    assert!(error.is_queue_full() && error.about() == "gpu", "{error}");
    let error = locks.lock("a").max_waiters(1).acquire().await.unwrap_err();
    assert!(error.is_queue_full() && error.to_string().ends_with(": 1: try later"), "{error}");
    // The server has queued nothing, so there was nothing to be taken back.
    assert_eq!((calls(&mut client, "rlock.cancel"), calls(&mut client, "rlock.release")), (0, 0));
    held.0.release().await.unwrap();
    held.1.release().await.unwrap();
    waits.0.await.unwrap().unwrap().release().await.unwrap();
    waits.1.await.unwrap().unwrap().release().await.unwrap();
    until_nothing_is_left(&mut client, "gpu").await;
}
