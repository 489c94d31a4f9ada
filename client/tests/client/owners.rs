//! Re-entry: an owner that the caller chose, and what happens to its holds when requests are lost. sim/tests/world tests
//! what its guards may take from each other.

use crate::proxy::{Proxy, Way};
use crate::support::{exists, locks_on, settled, until, until_waiting, waits_for};
use rlock_client::{ErrorKind, Locks};
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

/// A writer may read, and the sides are released one by one.
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

/// On any side: the server has a separate lease for each read hold.
#[tokio::test]
async fn an_inner_guard_does_not_shorten_the_outer_ones_lease() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let (read, write) = (locks.read_write("read").read(), locks.read_write("write").write());
    for (name, lock) in [("plain", locks.lock("plain")), ("read", read), ("write", write)] {
        let lock = lock.owner("job-7");
        let outer = lock.clone().fixed_lease(Duration::from_secs(20)).acquire().await.unwrap();
        let inner = lock.fixed_lease(Duration::from_millis(500)).acquire().await.unwrap();
        assert!(inner.remaining() < Duration::from_millis(500));
        inner.release().await.unwrap();
        assert!(outer.remaining() > Duration::from_secs(18), "{name}: {:?}", outer.remaining());
        let left = client.run(&["PTTL", name]).as_int();
        assert!(left > 18_000, "{name}: {left} ms are left on the server");
        outer.release().await.unwrap();
    }
}

/// Another program's holds under the same holder stay, for example those of a Java thread with a native helper.
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

/// A wait is abandoned before the client gets its grant: it releases its own hold, and no other of this owner.
#[tokio::test]
async fn a_wait_that_is_given_up_releases_its_own_hold() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let wait = waits_for(locks.lock("orders:42").owner("job-7").fixed_lease(Duration::from_secs(600)));
    until_waiting(&mut client, 1).await;
    network.swallow_where_is_waited(&[Way::Answers]);
    client.say("RLOCK.RELEASE orders:42 other");
    until("it is granted", || count(&mut client, "orders:42", "job-7") == counted(1)).await;
    assert!(client.run(&["PTTL", "orders:42"]).as_int() <= 3_000, "the first lease is short");
    client.say("RLOCK.ACQUIRE orders:42 job-7 600000");
    wait.abort();
    assert!(wait.await.is_err_and(|end| end.is_cancelled()));
    settled(&locks).await;
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(1));
}

/// To the server, all acquires of an owner are one holder, which waits once.
#[tokio::test]
async fn acquires_of_one_owner_at_the_same_time_are_granted_one_after_the_other() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let locks = locks_on(&server).await;
    let lock = locks.lock("orders:42").owner("job-7");
    let first = waits_for(lock.clone());
    until_waiting(&mut client, 1).await;
    let (second, dropped) = (waits_for(lock.clone()), waits_for(lock.clone()));
    assert!(lock.try_acquire().await.unwrap().is_none());
    let error = lock.acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert_eq!(client.figure("waiters"), 1);
    client.say("RLOCK.RELEASE orders:42 other");
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(count(&mut client, "orders:42", "job-7"), counted(2));
    first.release().await.unwrap();
    second.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

#[tokio::test]
async fn a_wait_is_refused_if_another_program_takes_its_place_as_the_same_owner() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE orders:42 other 600000");
    let (locks, others) = (locks_on(&server).await, locks_on(&server).await);
    let wait = waits_for(locks.lock("orders:42").owner("job-7"));
    until_waiting(&mut client, 1).await;
    let other = waits_for(others.lock("orders:42").owner("job-7"));
    let error = wait.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some("UNBLOCKED")), "{error}");
    client.say("RLOCK.RELEASE orders:42 other");
    other.await.unwrap().unwrap().release().await.unwrap();
}
