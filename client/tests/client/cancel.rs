//! Futures that are dropped at every possible point: neither a waiter nor a hold stays.

use crate::support::{locks_on, until_nothing_is_left};
use rlock_client::{Guard, Lock, Unfenced};
use rlock_testing::Server;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Acquiring = Pin<Box<dyn Future<Output = Option<Guard>> + Send>>;

/// More steps than any of the futures takes.
const STEPS: u32 = 60;

/// So short that, over all rounds, a drop comes between any two events.
const STEP: Duration = Duration::from_micros(20);

/// Drops the future after that many steps. Returns whether it was ready before.
async fn dropped_after(steps: u32, mut future: Acquiring) -> bool {
    for _ in 0..steps {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(guard) = future.as_mut().poll(&mut context) {
            drop(guard);
            return true;
        }
        // The work that it began goes on in other threads.
        std::thread::sleep(STEP);
        tokio::task::yield_now().await;
    }
    false
}

fn acquire<K: Send + Sync + 'static>(lock: Lock<Unfenced, K>) -> Acquiring {
    Box::pin(async move { lock.acquire().await.ok() })
}

fn try_acquire<K: Send + Sync + 'static>(lock: Lock<Unfenced, K>) -> Acquiring {
    Box::pin(async move { lock.try_acquire().await.unwrap() })
}

#[tokio::test]
async fn what_is_free() {
    let (server, replica) = (Server::start(), Server::start());
    replica.follow(&server);
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let plain = || locks.lock("a");
    let pair = || locks.read_write("a");
    let (permits, several) = (|| locks.permits("a", 1), || locks.all(["a", "b", "c"]));
    let confirmed = || plain().replicas(1, Duration::from_secs(10));
    let all: [&dyn Fn() -> Acquiring; 10] = [
        &|| acquire(plain()),
        &|| try_acquire(plain()),
        &|| acquire(plain().owner("job-7")),
        &|| acquire(pair().read()),
        &|| try_acquire(pair().read()),
        &|| acquire(pair().write()),
        &|| try_acquire(pair().write()),
        &|| acquire(permits()),
        &|| acquire(several()),
        &|| acquire(confirmed()),
    ];
    for (place, acquiring) in all.iter().enumerate() {
        let mut finished = 0;
        for steps in 0..STEPS {
            finished += usize::from(dropped_after(steps, acquiring()).await);
            for key in ["a", "b", "c"] {
                until_nothing_is_left(&mut client, key).await;
            }
        }
        assert!(finished > 0, "no number of steps was enough for number {place}");
    }
}

/// There is no connection yet, so the future may also be dropped while the client connects.
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
