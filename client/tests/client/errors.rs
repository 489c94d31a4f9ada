//! What bad input and bad servers get: an error that says what, and nothing left behind.

use crate::support::{exists, locks_on, until, until_waiting, url};
use rlock_client::{Access, Error, ErrorKind, Guard, Kind, Lock, Locks};
use rlock_testing::{Client, Server};
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// By each of the three ways.
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

/// No server is there: an argument that got further would be `Unavailable`.
#[tokio::test]
async fn arguments_that_are_refused() {
    let options = Locks::options().lazily().patience(Duration::from_millis(1));
    let locks = options.connect_to("redis://127.0.0.1:1").await.unwrap();
    let (lock, second) = (locks.lock("a"), Duration::from_secs(1));
    let owners = ["".to_owned(), "x".repeat(513), "mode".to_owned(), "x:write".to_owned()];
    for owner in owners {
        is_refused(lock.clone().owner(owner), "owner").await;
    }
    for lease in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        is_refused(lock.clone().lease(lease), "lease").await;
        is_refused(lock.clone().fixed_lease(lease), "lease").await;
    }
    is_refused(lock.clone().max_waiters(0), "max_waiters").await;
    is_refused(lock.clone().replicas(0, second), "replicas").await;
    is_refused(locks.permits("gpu", 0), "limit").await;
    is_refused(locks.permits("gpu", 100_001), "limit").await;
    is_refused(locks.lock(""), "empty").await;
    is_refused(locks.all([] as [&str; 0]), "at least one name").await;
    is_refused(locks.all(["a", ""]), "empty").await;
    is_refused(locks.all(["a", "b", "a"]), "twice").await;
    is_refused(locks.all((0..65).map(|number| number.to_string())), "64 names").await;
    assert!(lock.acquire().await.unwrap_err().is_unavailable());
}

async fn is_refused<F, K>(lock: Lock<F, K>, words: &str) {
    for refusal in refusals(&lock).await {
        assert_eq!(refusal.kind(), ErrorKind::Configuration, "{refusal}");
        assert!(refusal.to_string().contains(words), "{refusal} should say {words}");
    }
}

#[tokio::test]
async fn kinds_do_not_mix() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let _plain = locks.lock("plain").acquire().await.unwrap();
    let _read = locks.read_write("rw").read().acquire().await.unwrap();
    let cases = [
        (locks.read_write("plain").read(), "plain", Kind::Plain),
        (locks.read_write("plain").write(), "plain", Kind::Plain),
        (locks.lock("rw"), "rw", Kind::ReadWrite),
    ];
    for (lock, name, kind) in cases {
        for refusal in refusals(&lock).await {
            assert!(refusal.is_wrong_kind(), "{refusal}");
            assert!(refusal.to_string().contains("WRONGKIND"));
            assert_eq!((refusal.about(), refusal.kind_of_lock()), (name, Some(kind)));
        }
    }
}

#[tokio::test]
async fn a_reader_who_wants_to_write_is_told() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let prices = locks.read_write("prices");
    let reader = prices.read().owner("me").acquire().await.unwrap();
    let refused = prices.write().owner("me").acquire().await.unwrap_err();
    assert!(refused.is_deadlock(), "{refused}");
    assert!(!reader.is_lost());
    reader.release().await.unwrap();
    prices.write().owner("me").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_full_queue_is_told() {
    let server = Server::start();
    let mut client = server.client();
    client.say("CONFIG SET rlock.max-tickets 1");
    let locks = locks_on(&server).await;
    let _holder = locks.lock("a").acquire().await.unwrap();
    let waits = tokio::spawn({
        let lock = locks.lock("a");
        async move { lock.acquire().await.map(drop) }
    });
    until_waiting(&mut client, 1).await;
    assert!(locks.lock("a").acquire().await.unwrap_err().is_queue_full());
    waits.abort();
}

/// Waits that an operator ends are ended: all of a program, as they are told over one connection.
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
async fn a_server_without_the_module_is_named_with_the_remedy() {
    let server = Server::prepare().without_module().start();
    let locks = locks_on(&server).await;
    for refusal in refusals(&locks.lock("a")).await {
        assert!(refusal.is_module_missing(), "{refusal}");
        assert!(refusal.to_string().contains("loadmodule"), "{refusal}");
    }
}

#[tokio::test]
async fn nobody_answers() {
    let server = Server::start();
    let address = url(&server);
    let options = Locks::options().patience(Duration::from_millis(200));
    let locks = options.clone().connect_to(address.clone()).await.unwrap();
    drop(server);
    for refusal in refusals(&locks.lock("a")).await {
        assert!(refusal.is_unavailable() && refusal.code().is_none(), "{refusal}");
        assert!(refusal.source().is_some_and(|cause| cause.is::<io::Error>()), "{refusal:?}");
    }
    assert!(options.connect_to(address).await.unwrap_err().is_unavailable());
    assert!(Locks::connect("redis://127.0.0.1:1").await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn addresses_that_cannot_be_read() {
    for address in ["", "nonsense", "http://127.0.0.1", "redis://127.0.0.1:port"] {
        let refused = Locks::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Configuration, "{address}: {refused}");
    }
    let none: [&str; 0] = [];
    let refused = Locks::options().connect_to_cluster(none).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Configuration);
    let refused = Locks::options().connect_to_sentinels(none, "main", Access::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Configuration);
}

/// Rights that are missing are the server's no, at once and not after a while.
#[tokio::test]
async fn missing_rights() {
    let server = Server::start();
    let mut client = server.client();
    client.say("ACL SETUSER reader on >secret ~* +@read +@connection");
    client.say("ACL SETUSER app on >secret ~app:* +rlock.acquire +rlock.release +rlock.renew +@connection");
    let address = |user: &str, password: &str| format!("{}?user={user}&pass={password}", url(&server));
    let refused = Locks::connect(address("app", "wrong")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Refused, Some("WRONGPASS")), "{refused}");
    assert!(refused.source().is_none(), "{refused:?}");
    let reader = Locks::connect(address("reader", "secret")).await.unwrap();
    let app = Locks::connect(address("app", "secret")).await.unwrap();
    for lock in [reader.lock("app:1"), app.lock("other:1"), app.read_write("app:1").read()] {
        for refusal in refusals(&lock).await {
            assert_eq!(refusal.kind(), ErrorKind::Refused, "{refusal}");
            assert!(refusal.to_string().contains("NOPERM"), "{refusal}");
        }
    }
    let guard: Guard = app.lock("app:1").acquire().await.unwrap();
    guard.release().await.unwrap();
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
