//! The shortest ways to ask for a lock: by any kind of name, and with a token that is simply there.

use crate::support::{exists, locks_on, until_waiting, waits_for};
use rlock_testing::Server;
use std::time::Duration;

#[tokio::test]
async fn a_name_is_anything_that_has_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let (owned, bytes) = (String::from("a"), b"a".to_vec());
    let all = [
        locks.lock("a"),
        locks.lock(&owned),
        locks.lock(owned.clone()),
        locks.lock(b"a"),
        locks.lock(&bytes),
        locks.lock(&bytes[..]),
        locks.lock(bytes.clone()),
        locks.read_write(&owned).read(),
    ];
    for lock in all {
        let guard = lock.acquire().await.unwrap();
        assert!(exists(&mut client, "a"));
        guard.release().await.unwrap();
    }
}

/// A number, not one that may be missing.
#[tokio::test]
async fn the_guard_of_a_fenced_lock_has_a_token() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let fenced = locks.lock("a").fenced();
    let first = fenced.acquire().await.unwrap();
    let token: u64 = first.token();
    assert_eq!(token, 1);
    assert!(fenced.try_acquire().await.unwrap().is_none());
    let waits = tokio::spawn({
        let fenced = fenced.clone();
        async move { fenced.acquire().await }
    });
    until_waiting(&mut client, 1).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(second.token(), 2);
    let unfenced = waits_for(locks.lock("a"));
    until_waiting(&mut client, 1).await;
    let token = second.token();
    assert_eq!(second.run(async { token }).await.unwrap(), 2);
    unfenced.await.unwrap().unwrap().release().await.unwrap();
    let third = fenced.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    assert_eq!(third.token(), 3);
    third.release().await.unwrap();
}
