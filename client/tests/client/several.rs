//! Several locks at once: all of them, or none.

use crate::support::{exists, locks_on, until, until_nothing_is_left, url, waits_for};
use rlock_client::{ErrorKind, Locks};
use rlock_testing::{Cluster, Server};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn all_or_none() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    client.say("CONFIG SET rlock.tokens count");
    drop(locks.lock("b").fenced().acquire().await.unwrap());
    locks.settle().await;
    let set = locks.all(["c", "a", "b"]).fenced();
    let guard = set.try_acquire().await.unwrap().unwrap();
    assert_eq!(guard.tokens().collect::<Vec<_>>(), [1, 1, 2], "in the order in which they were given");
    assert_eq!(guard.token(), 1);
    assert!(!guard.is_lost() && guard.remaining() > Duration::from_secs(29));
    assert!(["a", "b", "c"].iter().all(|key| exists(&mut client, key)));
    assert!(set.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(!["a", "b", "c"].iter().any(|key| exists(&mut client, key)));

    let other = locks.lock("c").acquire().await.unwrap();
    assert!(set.try_acquire().await.unwrap().is_none());
    let late = set.acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    assert_eq!(late.about(), "c, a, b");
    for key in ["a", "b"] {
        until_nothing_is_left(&mut client, key).await;
    }
    other.release().await.unwrap();
}

/// A wait holds none of them meanwhile, and ends as soon as all are free.
#[tokio::test]
async fn what_a_set_waits_for_is_free_for_others() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let other = locks.lock("b").acquire().await.unwrap();
    let set = locks.all(["a", "b"]).fenced();
    let began = Instant::now();
    assert!(set.acquire_timeout(Duration::from_millis(300)).await.unwrap_err().is_timeout());
    assert!((Duration::from_millis(300)..Duration::from_secs(10)).contains(&began.elapsed()), "{:?}", began.elapsed());
    let waits = tokio::spawn(async move { set.acquire().await });
    until("it waits", || client.figure("waiters") > 0).await;
    locks.lock("a").acquire().await.unwrap().release().await.unwrap();
    other.release().await.unwrap();
    let guard = waits.await.unwrap().unwrap();
    assert!(guard.tokens().count() == 2 && guard.tokens().all(|token| token > 0));
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "a") && !exists(&mut client, "b"));
}

#[tokio::test]
async fn a_set_of_one_lock() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let guard = locks.all(["a"]).fenced().acquire().await.unwrap();
    assert_eq!(guard.tokens().count(), 1);
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "a"));
}

#[tokio::test]
async fn a_set_is_kept_for_longer_than_its_lease() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(Duration::from_secs(1)).connect_to(url(&server)).await.unwrap();
    let guard = locks.all(["a", "b"]).acquire().await.unwrap();
    for key in ["a", "b"] {
        let began = client.expiry(key);
        until("it was renewed for longer than a lease", || client.expiry(key) > began + 1_000).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_guard_of_several_is_lost_with_any_of_them() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(Duration::from_secs(1)).connect_to(url(&server)).await.unwrap();
    let guard = locks.all(["a", "b", "c"]).acquire().await.unwrap();
    client.say("DEL b");
    guard.lost().await;
    assert!(guard.is_lost() && guard.remaining().is_zero());
    assert!(guard.release().await.unwrap_err().is_lost());
    for key in ["a", "b", "c"] {
        until_nothing_is_left(&mut client, key).await;
    }
}

/// Sets that cross each other in every way, beside single locks, from many tasks: all get what they want in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossing_sets_never_deadlock() {
    const TASKS: u64 = 40;
    const ROUNDS: u64 = 15;
    let server = Server::start();
    let locks = locks_on(&server).await;
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            // Any generator will do that gives each task sets of its own; the seed is the task.
            let mut state = task.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for _ in 0..ROUNDS {
                let names: BTreeSet<_> =
                    (0..1 + next(&mut state) % 4).map(|_| (next(&mut state) % 6).to_string()).collect();
                let guard = locks.all(names).acquire_timeout(Duration::from_secs(120)).await.unwrap();
                assert!(!guard.is_lost());
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        timeout(Duration::from_secs(120), task).await.expect("they wait for each other").unwrap();
    }
    assert_eq!(server.client().say("DBSIZE").as_int(), 0);
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 8
}

#[tokio::test]
async fn a_set_with_a_lock_of_another_kind_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let reading = locks.read_write("b").read().acquire().await.unwrap();
    let mixed = locks.all(["a", "b"]).acquire().await.unwrap_err();
    assert!(mixed.is_wrong_kind() && mixed.about() == "a, b", "{mixed}");
    reading.release().await.unwrap();
    until_nothing_is_left(&mut client, "a").await;
}

#[tokio::test]
async fn in_a_cluster_they_are_of_one_slot() {
    let cluster = Cluster::start();
    let nodes = cluster.nodes().map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let locks = Locks::options().connect_to_cluster(nodes).await.unwrap();
    let guard = locks.all(["{orders}:1", "{orders}:2"]).acquire().await.unwrap();
    let waits = waits_for(locks.lock("{orders}:2"));
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    let error = locks.all(["orders:1", "orders:2"]).acquire().await.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some("CROSSSLOT")), "{error}");
}
