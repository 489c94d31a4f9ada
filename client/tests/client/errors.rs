//! Bad input and bad servers: the error says what is wrong, and nothing is left behind.

use crate::support::{exists, locks_on, until, until_waiting, url};
use rlock_client::{Access, Error, ErrorKind, Guard, Kind, Lock, Locks};
use rlock_testing::{Client, Server};
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// The error of each of the three ways to acquire.
async fn refusals<F, K>(lock: &Lock<F, K>) -> [Error; 3] {
    let limit = Duration::from_millis(100);
    [
        lock.try_acquire().await.map(drop).unwrap_err(),
        lock.acquire_timeout(limit).await.map(drop).unwrap_err(),
        lock.acquire().await.map(drop).unwrap_err(),
    ]
}

#[tokio::test]
async fn the_servers_own_words_are_kept() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    client.say("SET text 1");
    client.say("HSET foreign field value");
    let cases = [
        (locks.lock("a").lease(Duration::from_millis(u64::MAX >> 1)), ErrorKind::Refused, "ERR lease must be"),
        (locks.lock("text"), ErrorKind::Refused, "WRONGTYPE"),
        (locks.lock("foreign").owner("field"), ErrorKind::Refused, "WRONGTYPE"),
    ];
    for (lock, kind, words) in cases {
        for refusal in refusals(&lock).await {
            assert_eq!(refusal.kind(), kind, "{refusal}");
            assert!(refusal.to_string().contains(words), "{refusal} should say {words}");
            assert!(refusal.reason().starts_with(words), "{} should begin with {words}", refusal.reason());
            assert_eq!(refusal.reason(), format!("{} {}", refusal.code().unwrap(), refusal.text().unwrap()));
            assert_eq!(refusal.kind_of_lock(), None);
            assert!(refusal.source().is_none(), "a server has answered");
        }
    }
    assert!(!exists(&mut client, "a"));
}

/// There is no server: a lease that was accepted would end in `Unavailable`. The other refusals, and that nothing is sent,
/// are in clients/conformance/tests/conformance/errors.rs.
#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let options = Locks::options().lazily().patience(Duration::from_millis(1));
    let lock = options.connect_to("redis://127.0.0.1:1").await.unwrap().lock("a");
    for lease in [Duration::from_micros(999), Duration::MAX] {
        for lock in [lock.clone().lease(lease), lock.clone().fixed_lease(lease)] {
            for refusal in refusals(&lock).await {
                assert_eq!(refusal.kind(), ErrorKind::Configuration, "{refusal}");
                assert!(refusal.to_string().contains("lease"), "{refusal}");
            }
        }
    }
    let none: [&str; 0] = [];
    let no_node = Locks::options().connect_to_cluster(none).await.unwrap_err();
    let no_sentinel = Locks::options().connect_to_sentinels(none, "main", Access::default()).await.unwrap_err();
    assert_eq!([no_node.kind(), no_sentinel.kind()], [ErrorKind::Configuration; 2]);
}

#[tokio::test]
async fn kinds_do_not_mix() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let _plain = locks.lock("plain").acquire().await.unwrap();
    let _read = locks.read_write("rw").read().acquire().await.unwrap();
    let _permit = locks.permits("gpu", 2).acquire().await.unwrap();
    let cases = [
        (refusals(&locks.read_write("plain").read()).await, "plain", Kind::Plain),
        (refusals(&locks.read_write("plain").write()).await, "plain", Kind::Plain),
        (refusals(&locks.permits("plain", 2)).await, "plain", Kind::Plain),
        (refusals(&locks.lock("rw")).await, "rw", Kind::ReadWrite),
        (refusals(&locks.all(["a", "rw"])).await, "a, rw", Kind::ReadWrite),
        (refusals(&locks.lock("gpu")).await, "gpu", Kind::Permits),
    ];
    for (refusals, about, kind) in cases {
        for refusal in refusals {
            assert_eq!((refusal.kind(), refusal.code()), (ErrorKind::WrongKind, Some("WRONGKIND")), "{refusal}");
            assert_eq!((refusal.about(), refusal.kind_of_lock()), (about, Some(kind)));
        }
    }
    assert!(!exists(&mut server.client(), "a"));
}

#[tokio::test]
async fn a_reader_that_wants_to_write_gets_an_error() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let prices = locks.read_write("prices");
    let reader = prices.read().owner("me").acquire().await.unwrap();
    let refused = prices.write().owner("me").acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Deadlock, "{refused}");
    assert!(!reader.is_lost());
    reader.release().await.unwrap();
    prices.write().owner("me").acquire().await.unwrap().release().await.unwrap();
}

/// If an operator ends one wait, all waits of the program end, because they share one connection.
#[tokio::test]
async fn an_operator_may_unblock_a_wait() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let _holders = [locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap()];
    let waits = ["a", "b"].map(|name| {
        let lock = locks.lock(name);
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    });
    until_waiting(&mut client, 2).await;
    let list = client.say("CLIENT LIST");
    let waiting = list.as_text().lines().find(|line| line.contains("cmd=rlock.events") && line.contains("flags=b"));
    let id = waiting.unwrap().split([' ', '=']).nth(1).unwrap();
    client.say(&format!("CLIENT UNBLOCK {id} ERROR"));
    for waits in waits {
        let ended = waits.await.unwrap().unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::Refused);
        assert!(ended.to_string().contains("UNBLOCKED"), "{ended}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_the_source() {
    let server = Server::start();
    let options = Locks::options().patience(Duration::from_millis(200));
    let locks = options.connect_to(url(&server)).await.unwrap();
    drop(server);
    for refusal in refusals(&locks.lock("a")).await {
        assert!(refusal.is_unavailable() && refusal.code().is_none(), "{refusal}");
        assert!(refusal.source().is_some_and(|cause| cause.is::<io::Error>()), "{refusal:?}");
    }
}

/// An error can be sent to another thread, kept, and shown.
#[test]
fn errors_are_good_citizens() {
    fn good<T: std::error::Error + Clone + Send + Sync + 'static>() {}
    good::<Error>();
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<Guard>();
    sendable::<Locks>();
}

/// A server that is full may have room soon: it is asked again for as long as the caller waits, or as a failover may
/// take.
#[tokio::test]
async fn a_server_without_memory_is_asked_again() {
    let server = Server::start();
    let mut client = server.client();
    let full = |client: &mut Client, bytes: u32| drop(client.say(&format!("CONFIG SET maxmemory {bytes}")));
    full(&mut client, 1);
    let options = Locks::options().patience(Duration::from_millis(200));
    let locks = options.connect_to(url(&server)).await.unwrap();
    for refusal in refusals(&locks.lock("a")).await {
        assert!(refusal.is_unavailable(), "{refusal}");
        assert_eq!(refusal.code(), Some("OOM"));
        assert!(!refusal.to_string().contains("no server answers"), "{refusal}");
    }
    let patient = locks_on(&server).await;
    let before = client.info("errorstats");
    let waits = tokio::spawn(async move { patient.lock("a").acquire().await });
    until("it was refused", || client.info("errorstats") != before).await;
    full(&mut client, 0);
    waits.await.unwrap().unwrap().release().await.unwrap();
}
