//! Futures that are dropped at every point at which they can be: neither a waiter nor a hold stays behind.

use crate::support::{locks_on, until_nothing_is_left};
use rlock_client::{Guard, Lock};
use rlock_testing::{Client, Server};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Acquiring = Pin<Box<dyn Future<Output = Option<Guard>> + Send>>;

/// More steps than any of the futures takes.
const STEPS: u32 = 60;

/// So short that a drop comes between any two things that happen, in one round or another.
const STEP: Duration = Duration::from_micros(20);

/// Drops the future after that many steps. Returns whether it was ready before.
async fn dropped_after(steps: u32, mut future: Acquiring) -> bool {
    for _ in 0..steps {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(guard) = future.as_mut().poll(&mut context) {
            drop(guard);
            return true;
        }
        // What it began goes on elsewhere.
        std::thread::sleep(STEP);
        tokio::task::yield_now().await;
    }
    false
}

/// Drops what `acquiring` makes after each number of steps.
async fn dropped_everywhere(client: &mut Client, keys: &[&str], acquiring: impl Fn() -> Acquiring) -> usize {
    let mut finished = 0;
    for steps in 0..STEPS {
        finished += usize::from(dropped_after(steps, acquiring()).await);
        for key in keys {
            until_nothing_is_left(client, key).await;
        }
    }
    finished
}

fn acquire(lock: Lock) -> Acquiring {
    Box::pin(async move { lock.acquire().await.ok() })
}

fn try_acquire(lock: Lock) -> Acquiring {
    Box::pin(async move { lock.try_acquire().await.unwrap() })
}

#[tokio::test]
async fn a_free_lock() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for lock in [locks.lock("key"), locks.read_write("key").read(), locks.read_write("key").write()] {
        for acquiring in [acquire, try_acquire] {
            let finished = dropped_everywhere(&mut client, &["key"], || acquiring(lock.clone())).await;
            assert!(finished > 0, "no number of steps was enough");
        }
        let named = lock.owner("job-7");
        dropped_everywhere(&mut client, &["key"], || acquire(named.clone())).await;
    }
}

/// Nothing is connected yet: also while connecting it may be dropped.
#[tokio::test]
async fn a_free_lock_over_a_new_connection() {
    let server = Server::start();
    let mut client = server.client();
    for steps in 0..STEPS {
        let locks = locks_on(&server).await;
        client.say("CLIENT KILL TYPE normal SKIPME yes");
        dropped_after(steps, acquire(locks.lock("key"))).await;
        until_nothing_is_left(&mut client, "key").await;
    }
}

/// The holder releases at the same time, so that the grant may come before, with or after the drop.
#[tokio::test]
async fn a_lock_that_is_waited_for() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for releases_after in [0, 2, 5, 10, STEPS] {
        for steps in 0..STEPS {
            let holder = locks.lock("key").acquire().await.unwrap();
            let release = tokio::spawn(async move {
                for _ in 0..releases_after {
                    std::thread::sleep(STEP);
                    tokio::task::yield_now().await;
                }
                holder.release().await.unwrap();
            });
            dropped_after(steps, acquire(locks.lock("key"))).await;
            release.await.unwrap();
            until_nothing_is_left(&mut client, "key").await;
        }
    }
}

#[tokio::test]
async fn a_release() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for steps in 0..STEPS {
        let guard = locks.lock("key").acquire().await.unwrap();
        dropped_after(steps, Box::pin(async move { guard.release().await.map(|()| None).unwrap() })).await;
        until_nothing_is_left(&mut client, "key").await;
    }
}

#[tokio::test]
async fn several_locks() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let all = || {
        let set = locks.all(["a", "b", "c"]);
        Box::pin(async move { set.acquire().await.ok() }) as Acquiring
    };
    assert!(dropped_everywhere(&mut client, &["a", "b", "c"], all).await > 0);
}

#[tokio::test]
async fn a_permit() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let one = || {
        let permits = locks.permits("key", 1);
        Box::pin(async move { permits.acquire().await.ok() }) as Acquiring
    };
    assert!(dropped_everywhere(&mut client, &["key"], one).await > 0);
}

#[tokio::test]
async fn a_lock_with_replicas() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let replica = Server::start();
    replica.follow(&server);
    let lock = locks.lock("key").replicas(1, Duration::from_secs(10));
    assert!(dropped_everywhere(&mut client, &["key"], || acquire(lock.clone())).await > 0);
}
