//! Grants that replicas have to confirm.

use crate::support::{exists, locks_on, until, until_nothing_is_left, until_waiting};
use rlock_client::ErrorKind;
use rlock_testing::Server;
use std::time::Duration;

/// A master with a replica that has the module as well.
fn pair() -> (Server, Server) {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    (master, replica)
}

#[tokio::test]
async fn a_grant_that_enough_replicas_confirm() {
    let (master, replica) = pair();
    let locks = locks_on(&master).await;
    let lock = locks.lock("orders:42").fenced().replicas(1, Duration::from_secs(10));
    let first = lock.acquire().await.unwrap();
    let held = replica.client().hash("orders:42");
    assert_eq!(held, [(first.holder().into_owned(), "1".to_owned())], "the replica has it when acquire returns");
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until_waiting(&mut master.client(), 1).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(replica.client().hash("orders:42"), [(second.holder().into_owned(), "1".to_owned())]);
    assert_eq!(second.token(), 2);
    second.release().await.unwrap();
}

#[tokio::test]
async fn too_few_replicas() {
    let (master, replica) = pair();
    let mut client = master.client();
    let locks = locks_on(&master).await;
    let lock = locks.lock("orders:42");
    let refused = lock.clone().replicas(2, Duration::from_millis(20)).acquire().await.unwrap_err();
    assert!(refused.is_too_few_replicas(), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::TooFewReplicas { wanted: 2, confirmed: 1 });
    assert!(refused.to_string().contains("1 of 2"), "{refused}");
    until_nothing_is_left(&mut client, "orders:42").await;
    replica.freeze();
    let refused = lock.replicas(1, Duration::from_millis(20)).try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooFewReplicas { wanted: 1, confirmed: 0 });
    until("it is released", || !exists(&mut client, "orders:42")).await;
    replica.thaw();
}
