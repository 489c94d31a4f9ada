//! The ways to a server: TCP, TLS, a unix socket, a user and a database, and a connection that is there already.

use crate::support::{exists, locks_on, until, until_nothing_is_left, until_waiting, url, waits_for};
use rlock_client::redis::{self, Client};
use rlock_client::{ErrorKind, Locks};
use rlock_testing::Server;
use std::time::Duration;

/// Takes a lock, waits for it, and gives it back.
async fn works(locks: &Locks) {
    let first = locks.lock("orders:42").acquire().await.unwrap();
    let waits = tokio::spawn({
        let lock = locks.lock("orders:42");
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    first.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn by_tcp_and_by_a_unix_socket() {
    let server = Server::start();
    let tcp = format!("redis://127.0.0.1:{}", server.port());
    for address in [tcp.clone(), format!("{tcp}/?protocol=resp3"), url(&server)] {
        works(&Locks::connect(address).await.unwrap()).await;
    }
}

#[tokio::test]
async fn as_a_user_and_in_a_database() {
    let server = Server::start();
    let mut client = server.client();
    client.say("ACL SETUSER app on >secret ~* +@all");
    let locks = Locks::connect(format!("redis://app:secret@127.0.0.1:{}/3", server.port())).await.unwrap();
    works(&locks).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
    client.say("SELECT 3");
    assert!(exists(&mut client, "orders:42"));
    guard.release().await.unwrap();
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn by_tls() {
    if !crate::tls::is_spoken() {
        return;
    }
    let server = crate::tls::TlsServer::start();
    let unknown = Locks::connect(server.address.clone()).await.unwrap_err();
    assert!(unknown.is_unavailable(), "a certificate that nobody vouches for: {unknown}");
    works(&Locks::connect(server.trusted()).await.unwrap()).await;
}

/// Over a connection of the caller's all works but what would hold up its other users.
#[tokio::test]
async fn over_a_connection_that_is_there_already() {
    let server = Server::start();
    let mut client = server.client();
    let connection = Client::open(url(&server)).unwrap().get_multiplexed_async_connection().await.unwrap();
    let locks = Locks::options().lease(Duration::from_millis(500)).over(connection.clone());
    let fenced = locks.lock("b").fenced().acquire().await.unwrap();
    assert_eq!(fenced.token(), 1);
    let guards = [locks.lock("orders:42").acquire().await.unwrap(), fenced.unfenced()];
    let began = client.expiry("orders:42");
    until("both are renewed", || ["orders:42", "b"].iter().all(|key| client.expiry(key) > began + 500)).await;
    assert!(locks.lock("orders:42").acquire_timeout(Duration::from_millis(20)).await.unwrap_err().is_timeout());
    let waits = waits_for(locks.lock("orders:42"));
    until_waiting(&mut client, 1).await;
    // It has a place in the queue, and its other users are not held up meanwhile.
    assert!(locks_on(&server).await.lock("orders:42").try_acquire().await.unwrap().is_none());
    let mut theirs = connection.clone();
    let () = redis::cmd("SET").arg("theirs").arg(1).query_async(&mut theirs).await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    waits.await.unwrap().unwrap().release().await.unwrap();
    let replicas = locks.lock("orders:42").replicas(1, Duration::from_millis(10)).acquire().await.unwrap_err();
    assert_eq!(replicas.kind(), ErrorKind::Configuration);
    until_nothing_is_left(&mut client, "orders:42").await;
}

/// An operator sees in CLIENT LIST whose connection it is.
#[tokio::test]
async fn connections_say_who_they_are() {
    let server = Server::start();
    let _locks = locks_on(&server).await;
    let list = server.client().say("CLIENT LIST");
    if list.as_text().contains("lib-name=") {
        assert!(list.as_text().contains("lib-name=rlock-client"), "{list:?}");
    }
}
