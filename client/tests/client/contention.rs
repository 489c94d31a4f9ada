//! Many who want one lock: never two at a time.

use crate::support::{locks_on, until_nothing_is_left};
use redis::AsyncCommands;
use rlock_testing::Server;
use std::time::Duration;

/// A thousand tasks of eight clients add to a counter, by reading it and writing it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_only_the_lock_protects_is_exact() {
    const CLIENTS: usize = 8;
    const TASKS: usize = 1_000;
    const ROUNDS: usize = 3;
    let server = Server::start();
    let data = redis::Client::open(crate::support::url(&server)).unwrap();
    // The module's time is not what this is about; a debug build of it on a busy machine is slow.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    let data = data.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(locks_on(&server).await);
    }
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (locks, mut data) = (clients[task % CLIENTS].clone(), data.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = locks.lock("counter-lock").acquire().await.unwrap();
                let count: Option<u64> = data.get("counter").await.unwrap();
                let () = data.set("counter", count.unwrap_or(0) + 1).await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut data = data;
    assert_eq!(data.get::<_, usize>("counter").await.unwrap(), TASKS * ROUNDS);
    until_nothing_is_left(&mut server.client(), "counter-lock").await;
}

/// Readers see what writers wrote, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_half_of_what_a_writer_does() {
    let server = Server::start();
    let data = redis::Client::open(crate::support::url(&server)).unwrap();
    let data = data.get_multiplexed_async_connection().await.unwrap();
    let locks = locks_on(&server).await;
    let tasks: Vec<_> = (0..60)
        .map(|task| {
            let (pair, mut data) = (locks.read_write("pair-lock"), data.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    if task % 6 == 0 {
                        let guard = pair.write().acquire().await.unwrap();
                        let value = format!("{task}:{round}");
                        let () = data.set("left", &value).await.unwrap();
                        let () = data.set("right", &value).await.unwrap();
                        guard.release().await.unwrap();
                    } else {
                        let guard = pair.read().acquire().await.unwrap();
                        let left: Option<String> = data.get("left").await.unwrap();
                        let right: Option<String> = data.get("right").await.unwrap();
                        assert_eq!(left, right);
                        guard.release().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    until_nothing_is_left(&mut server.client(), "pair-lock").await;
}
