//! The example of a lock on a majority of several servers, while some of them fail.

use crate::support::{until, until_nothing_is_left, url};
use redlock::Redlock;
use rlock_testing::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[path = "../../examples/redlock.rs"]
#[allow(dead_code, reason = "its program is not run here")]
mod redlock;

const LEASE: Duration = Duration::from_secs(2);

async fn on(servers: &[Server]) -> Redlock {
    let urls: Vec<_> = servers.iter().map(url).collect();
    Redlock::connect("nightly", LEASE, urls.iter().map(String::as_str)).await
}

fn three() -> [Server; 3] {
    [Server::start(), Server::start(), Server::start()]
}

/// A dead or silent server does not matter: not for acquiring, renewing or releasing.
#[tokio::test]
async fn one_of_three_may_fail() {
    for is_silent in [false, true] {
        let mut servers = three();
        let redlock = on(&servers).await;
        if is_silent {
            servers[2].freeze();
        } else {
            servers[2].kill();
        }
        let held = redlock.acquire().await;
        let mut client = servers[0].client();
        let began = client.expiry("nightly");
        until("it was renewed for longer than a lease", || client.expiry("nightly") > began + 2_000).await;
        assert!(!held.is_lost() && redlock.try_acquire().await.is_none());
        assert!(held.release().await);
        for server in &servers[..2] {
            until_nothing_is_left(&mut server.client(), "nightly").await;
        }
        if is_silent {
            servers[2].thaw();
            until_nothing_is_left(&mut servers[2].client(), "nightly").await;
        }
    }
}

#[tokio::test]
async fn without_a_majority_there_is_no_lock_and_nothing_stays() {
    let mut servers = three();
    servers[2].kill();
    let redlock = on(&servers).await;
    servers[1].freeze();
    assert!(redlock.try_acquire().await.is_none());
    until_nothing_is_left(&mut servers[0].client(), "nightly").await;
    servers[1].thaw();
    until_nothing_is_left(&mut servers[1].client(), "nightly").await;
    redlock.acquire().await;
}

#[tokio::test]
async fn it_is_lost_when_too_few_are_left() {
    let mut servers = three();
    let redlock = on(&servers).await;
    let held = redlock.acquire().await;
    assert_eq!(servers[0].client().say("DEL nightly").as_int(), 1);
    let mut client = servers[1].client();
    let began = client.expiry("nightly");
    until("it is renewed by two", || client.expiry("nightly") > began + 2_000).await;
    assert!(!held.is_lost());
    servers[2].kill();
    held.lost().await;
    assert!(held.is_lost() && !held.release().await);
    until_nothing_is_left(&mut client, "nightly").await;
}

/// Clients that block each other make progress in the end, and never hold the lock together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_want_it() {
    let servers = three();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (redlock, inside) = (on(&servers).await, inside.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..3 {
                let held = redlock.acquire().await;
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, SeqCst);
                assert!(held.release().await);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
