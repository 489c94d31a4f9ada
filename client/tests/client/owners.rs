//! Re-entry: an owner that the caller chose, and what becomes of its holds when requests are lost.

use crate::proxy::{Proxy, Way};
use crate::support::{calls, exists, locks_on, settled, until, until_nothing_is_left, until_waiting, waits_for};
use rlock_client::Locks;
use rlock_testing::{Client, Reply, Server};
use std::time::Duration;

fn count(client: &mut Client, key: &str, owner: &str) -> Reply {
    client.run(&["HGET", key, owner])
}

fn counted(number: usize) -> Reply {
    rlock_testing::text(&number.to_string())
}

#[tokio::test]
async fn an_owner_acquires_again_and_the_lock_is_free_with_the_last_guard() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42").owner("job-7").fenced();
    let outer = lock.acquire().await.unwrap();
    let inner = lock.try_acquire().await.unwrap().unwrap();
    assert!(inner.token() > outer.token());
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(2));
    outer.release().await.unwrap();
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(1));
    assert!(!inner.is_lost());
    inner.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

/// A writer may read, and the sides are given back one by one.
#[tokio::test]
async fn a_writer_may_read_and_step_down() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let prices = locks.read_write("prices");
    let writer = prices.write().owner("job-7").acquire().await.unwrap();
    let reader = prices.read().owner("job-7").acquire().await.unwrap();
    writer.release().await.unwrap();
    assert_eq!(count(&mut client, "prices", "mode"), rlock_testing::text("read"));
    let other = prices.read().try_acquire().await.unwrap().expect("readers share");
    reader.release().await.unwrap();
    other.release().await.unwrap();
    assert!(!exists(&mut client, "prices"));
}

/// A shorter lease of an inner guard does not shorten the outer one's.
#[tokio::test]
async fn an_inner_guard_does_not_shorten_the_outer_ones_lease() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    for lock in [locks.lock("plain"), locks.read_write("rw").read(), locks.read_write("rw2").write()] {
        let lock = lock.owner("job-7");
        let mut client = server.client();
        let name =
            ["plain", "rw", "rw2"].into_iter().find(|name| format!("{lock:?}").contains(&format!("{name:?}"))).unwrap();
        let outer = lock.clone().fixed_lease(Duration::from_secs(20)).acquire().await.unwrap();
        let inner = lock.clone().fixed_lease(Duration::from_millis(500)).acquire().await.unwrap();
        assert!(inner.remaining() < Duration::from_millis(500));
        assert!(outer.remaining() > Duration::from_secs(18), "{name}: {:?}", outer.remaining());
        inner.release().await.unwrap();
        assert!(outer.remaining() > Duration::from_secs(18), "{name}: {:?}", outer.remaining());
        let left = client.run(&["PTTL", name]).as_int();
        assert!(left > 18_000, "{name}: {left} ms are left on the server");
        outer.release().await.unwrap();
        assert!(!exists(&mut client, name));
    }
}

/// What somebody else has under the same holder, such as a Java thread that a native helper works for, stays.
#[tokio::test]
async fn what_others_hold_under_the_same_owner_stays() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 java:1 60000");
    let locks = locks_on(&server).await;
    let guard = locks.lock("orders:42").owner("java:1").acquire().await.unwrap();
    assert_eq!(count(&mut client, "orders:42", "java:1"), counted(2));
    guard.release().await.unwrap();
    assert_eq!(count(&mut client, "orders:42", "java:1"), counted(1));
}

/// A request is lost with its connection while guards of its owner are there. They keep what they have, and with the
/// last of them goes all there is.
#[tokio::test]
async fn a_request_that_nobody_waited_for_leaves_nothing_behind() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42").owner("job-7");
    let outer = lock.acquire().await.unwrap();
    // Dropped after it was sent: the server grants it, and nobody is there.
    server.freeze();
    let inner = tokio::time::timeout(Duration::from_millis(100), lock.try_acquire()).await;
    assert!(inner.is_err(), "nobody could answer");
    server.thaw();
    until("it is granted", || count(&mut client, "orders:42", "job-7") == counted(2)).await;
    assert!(!outer.is_lost());
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(2));
    outer.release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// A wait is granted the lock and nobody is told, its owner acquires the lock again, and then the wait is given up: the
/// server cannot know which of the two holds is whose.
#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing_under_its_owner() {
    let server = Server::start();
    let mut client = server.client();
    for is_released_first in [false, true] {
        let network = Proxy::to(&server);
        let locks = Locks::connect(network.url()).await.unwrap();
        let lock = locks.lock("orders:42").owner("job-7");
        client.say("RLOCK.ACQUIRE orders:42 other 600000");
        let wait = waits_for(lock.clone());
        until_waiting(&mut client, 1).await;
        network.swallow_where_is_waited(&[Way::Answers]);
        client.say("RLOCK.RELEASE orders:42 other");
        until("it is granted", || count(&mut client, "orders:42", "job-7") == counted(1)).await;
        let guard = lock.fixed_lease(Duration::from_secs(600)).try_acquire().await.unwrap().expect("it is its own");
        assert_eq!(count(&mut client, "orders:42", "job-7"), counted(2));
        let guard = if is_released_first { guard.release().await.map(|()| None).unwrap() } else { Some(guard) };
        wait.abort();
        assert!(wait.await.is_err_and(|end| end.is_cancelled()));
        settled(&locks).await;
        if let Some(guard) = guard {
            assert!(!guard.is_lost());
            guard.release().await.unwrap();
        }
        assert!(!exists(&mut client, "orders:42"), "released first: {is_released_first}");
    }
}

/// The same where its owner acquired the other side meanwhile, which a writer may: all that a holder has is one lease.
#[tokio::test]
async fn a_wait_for_one_side_that_is_given_up_leaves_nothing_beside_the_other() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    let prices = locks.read_write("prices");
    client.say("RLOCK.WACQUIRE prices other 600000");
    let wait = waits_for(prices.write().owner("job-7"));
    until_waiting(&mut client, 1).await;
    network.swallow_where_is_waited(&[Way::Answers]);
    client.say("RLOCK.RELEASE prices other WRITE");
    until("it is granted", || count(&mut client, "prices", "job-7:write") == counted(1)).await;
    let reads = prices.read().owner("job-7").fixed_lease(Duration::from_secs(600));
    let guard = reads.try_acquire().await.unwrap().expect("a writer may read");
    wait.abort();
    assert!(wait.await.is_err_and(|end| end.is_cancelled()));
    settled(&locks).await;
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "prices"));
}

/// A guard that is lost is gone for good, and does not take its successor's hold with it.
#[tokio::test]
async fn a_lost_guard_leaves_its_owners_next_guard_alone() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42").owner("job-7");
    let old = lock.clone().fixed_lease(Duration::from_millis(50)).acquire().await.unwrap();
    old.lost().await;
    until("the lease has ended", || !exists(&mut client, "orders:42")).await;
    let new = lock.acquire().await.unwrap();
    assert!(old.is_lost() && !new.is_lost());
    assert!(old.release().await.unwrap_err().is_lost());
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(1));
    assert!(!new.is_lost());
    new.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

/// What an owner acquires next makes nothing good that its lost guard was to protect.
#[tokio::test]
async fn a_lost_guard_stays_lost_when_its_owner_acquires_again() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42").owner("job-7").lease(Duration::from_millis(300));
    let old = lock.acquire().await.unwrap();
    client.say("DEL orders:42");
    old.lost().await;
    let new = lock.acquire().await.unwrap();
    assert!(old.is_lost() && old.remaining().is_zero() && !new.is_lost());
    old.lost().await;
    drop(old);
    new.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

/// All that an owner may have is being given back, and it asks again meanwhile, on another connection. What it gets
/// then must not be given back as well.
#[tokio::test]
async fn a_release_under_way_does_not_take_what_comes_after_it() {
    let (server, replica) = (Server::start(), Server::start());
    replica.follow(&server);
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    let lock = locks.lock("orders:42").owner("job-7");
    let outer = lock.acquire().await.unwrap();
    // One more, of which nobody here knows.
    server.freeze();
    assert!(tokio::time::timeout(Duration::from_millis(100), lock.try_acquire()).await.is_err());
    server.thaw();
    until("it is granted", || count(&mut client, "orders:42", "job-7") == counted(2)).await;
    network.hold_back();
    let mut releasing = Box::pin(outer.release());
    let sent = tokio::time::timeout(Duration::from_millis(100), &mut releasing).await;
    assert!(sent.is_err(), "it cannot have arrived");
    // Who needs a replica's word has a connection of its own, which nothing holds back.
    let lock = lock.replicas(1, Duration::from_secs(10));
    let mut acquiring = Box::pin(lock.acquire());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut acquiring).await.is_err(), "it does not wait");
    network.let_through();
    releasing.await.unwrap();
    let guard = acquiring.await.unwrap();
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(1));
    guard.release().await.unwrap();
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// Two tasks of one owner at once: each grant counts, and each release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_owner_may_ask_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let lock = locks.lock("orders:42").owner("job-7");
            tokio::spawn(async move {
                for _ in 0..20 {
                    let guard = lock.acquire().await.unwrap();
                    assert!(!guard.is_lost());
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(!exists(&mut client, "orders:42"));
}

/// What was never granted is known to be gone, so a program that ends has nothing to wait for.
#[tokio::test]
async fn a_wait_that_is_given_up_in_vain_leaves_no_doubt() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let locks = locks_on(&server).await;
    let wait = waits_for(locks.lock("orders:42").owner("job-7"));
    until_waiting(&mut client, 1).await;
    wait.abort();
    assert!(wait.await.is_err_and(|end| end.is_cancelled()));
    settled(&locks).await;
    assert_eq!(client.figure("waiters"), 0);
    assert_eq!(calls(&mut client, "rlock.release"), 0, "nothing is to be given back");
}
