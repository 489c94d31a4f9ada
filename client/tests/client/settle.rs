//! A program that is about to end waits until its background work is over.

use crate::support::{exists, until_nothing_is_left, until_waiting, url};
use rlock_client::Locks;
use rlock_testing::Server;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn releases_in_the_background_can_be_waited_for() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(LONG).connect_to(url(&server)).await.unwrap();
    locks.settle().await;
    for _ in 0..20 {
        let guard = locks.lock("key").acquire().await.unwrap();
        assert!(exists(&mut client, "key"));
        drop(guard);
        locks.settle().await;
        assert!(!exists(&mut client, "key"));
    }
    let taken = locks.lock("key").acquire().await.unwrap();
    for _ in 0..20 {
        let waits = locks.lock("key");
        tokio::select! {
            biased;
            acquired = waits.acquire() => panic!("{acquired:?}"),
            () = until_waiting(&mut client, 1) => {}
        }
        locks.settle().await;
        assert_eq!(client.figure("waiters"), 0);
    }
    server.freeze();
    drop(taken);
    assert!(tokio::time::timeout(Duration::from_millis(100), locks.settle()).await.is_err(), "no server has answered");
    server.thaw();
    locks.settle().await;
    until_nothing_is_left(&mut client, "key").await;
}

/// A program that gets a signal while it waits drops its wait, settles and ends.
#[tokio::test]
async fn a_grant_that_comes_when_its_wait_is_dropped_can_be_waited_for_as_well() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(LONG).connect_to(url(&server)).await.unwrap();
    for after in (0..60).map(|step| Duration::from_micros(step * 25)) {
        client.say("RLOCK.ACQUIRE key other 600000");
        let lock = locks.lock("key");
        tokio::select! {
            biased;
            acquired = lock.acquire() => panic!("{acquired:?}"),
            () = until_waiting(&mut client, 1) => {
                client.say("RLOCK.RELEASE key other");
                // The client's thread goes on, and this future does not.
                std::thread::sleep(after);
            }
        }
        locks.settle().await;
        assert!(!exists(&mut client, "key") && client.figure("waiters") == 0, "dropped {after:?} after the grant");
    }
}
