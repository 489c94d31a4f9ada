//! Several locks at once, and permits, are kept for longer than their lease, and lost.
//! clients/conformance/tests/conformance/locks.rs tests which client gets them.

use crate::support::{until, until_nothing_is_left, url};
use rlock_client::{ErrorKind, Locks};
use rlock_testing::{Client, Cluster, Server};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(2);

async fn on(server: &Server) -> Locks {
    Locks::options().lease(LEASE).connect_to(url(server)).await.unwrap()
}

async fn is_kept(client: &mut Client, key: &str) {
    let began = client.expiry(key);
    until("it was renewed for longer than a lease", || client.expiry(key) > began + 2_000).await;
}

#[tokio::test]
async fn a_guard_of_several_is_lost_with_any_of_them() {
    let server = Server::start();
    let mut client = server.client();
    let guard = on(&server).await.all(["a", "b", "c"]).acquire().await.unwrap();
    for key in ["a", "b", "c"] {
        is_kept(&mut client, key).await;
    }
    client.say("DEL b");
    guard.lost().await;
    assert!(guard.is_lost() && guard.remaining().is_zero());
    assert!(guard.release().await.unwrap_err().is_lost());
    for key in ["a", "b", "c"] {
        until_nothing_is_left(&mut client, key).await;
    }
}

#[tokio::test]
async fn a_permit_is_lost_alone() {
    let server = Server::start();
    let mut client = server.client();
    let two = on(&server).await.permits("gpu", 2);
    let [kept, taken] = [two.acquire().await.unwrap(), two.acquire().await.unwrap()];
    is_kept(&mut client, "gpu").await;
    assert_eq!(client.run(&["ZREM", "gpu", &taken.holder()]).as_int(), 1);
    taken.lost().await;
    assert!(taken.release().await.unwrap_err().is_lost());
    assert!(!kept.is_lost());
    kept.release().await.unwrap();
}

#[tokio::test]
async fn in_a_cluster_several_are_of_one_slot() {
    let cluster = Cluster::start();
    let nodes = cluster.nodes().map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let locks = Locks::options().connect_to_cluster(nodes).await.unwrap();
    locks.all(["{orders}:1", "{orders}:2"]).acquire().await.unwrap().release().await.unwrap();
    let error = locks.all(["orders:1", "orders:2"]).acquire().await.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some("CROSSSLOT")), "{error}");
}
