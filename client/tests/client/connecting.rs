//! The ways to a server: TCP, TLS, a unix socket, a user and a database.

use crate::support::{exists, locks_on, url};
use rlock_client::{Access, Address, Locks, Place};
use rlock_testing::Server;

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
    for address in [&tcp, &format!("{tcp}/?protocol=resp3"), &url(&server)] {
        works(&Locks::connect(address).await.unwrap()).await;
    }
    let place = Place::Tcp { host: "localhost".to_owned(), port: server.port() };
    works(&Locks::connect(Address::new(place, Access::default())).await.unwrap()).await;
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
    works(&server.trusted().connect_to(&server.address).await.unwrap()).await;
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
