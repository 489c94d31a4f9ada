//! A lock that one process detaches and another one adopts, if types differ, connections break or futures are dropped.
//! clients/conformance/tests/conformance/detached.rs has the promises of clients in all languages.

use crate::proxy::Proxy;
use crate::support::{exists, locks_on, until_nothing_is_left, url};
use rlock_client::{ErrorKind, Guard, Locks, Loss};
use rlock_testing::Server;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

async fn with(lease: Duration, url: String) -> Locks {
    Locks::options().lease(lease).connect_to(url).await.unwrap()
}

/// A guard of each kind, with its keys.
async fn of_each_kind(locks: &Locks) -> Vec<(Guard, Vec<&'static str>)> {
    vec![
        (locks.lock("plain").acquire().await.unwrap(), vec!["plain"]),
        (locks.lock("owned").owner("job/7").acquire().await.unwrap(), vec!["owned"]),
        (locks.read_write("read").read().acquire().await.unwrap(), vec!["read"]),
        (locks.read_write("write").write().acquire().await.unwrap(), vec!["write"]),
        (locks.permits("permit", 2).acquire().await.unwrap(), vec!["permit"]),
        (locks.all(["a", "b c", "d"]).acquire().await.unwrap(), vec!["a", "b c", "d"]),
    ]
}

#[tokio::test]
async fn tokens_go_with_the_lock() {
    let server = Server::start();
    let (locks, others) = (locks_on(&server).await, locks_on(&server).await);
    let guard = locks.lock("a").fenced().acquire().await.unwrap();
    let text = guard.detach().await.unwrap();
    assert!(guard.is_lost() && guard.detach().await.unwrap_err().is_lost(), "it has nothing any more");
    assert_eq!(guard.loss(), None, "but it has not lost the lock");
    let adopted = others.adopt(text).await.unwrap();
    assert_eq!(adopted.token(), Some(guard.token()));
    let again = locks.adopt(adopted.unfenced().detach().await.unwrap()).await.unwrap();
    assert_eq!(again.tokens(), [guard.token()]);
    let plain = locks.lock("d").acquire().await.unwrap();
    assert_eq!(others.adopt(plain.detach().await.unwrap()).await.unwrap().token(), None);
}

/// The work goes on after that.
#[tokio::test]
async fn work_under_a_lock_may_hand_it_on() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let detaching = guard.detach();
    let work = async move {
        let text = detaching.await;
        tokio::task::yield_now().await;
        text
    };
    let text = guard.run(work).await.unwrap().unwrap();
    locks.adopt(text).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let twice = locks.lock("twice").owner("job-7");
    let twice = [twice.acquire().await.unwrap(), twice.acquire().await.unwrap()];
    let kept = locks.lock("kept").acquire().await.unwrap();
    let errors = [
        twice[0].detach().await.unwrap_err(),
        kept.detach_within(Duration::ZERO).await.unwrap_err(),
        locks.adopt(b"\xFF").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
    for guard in twice.into_iter().chain([kept]) {
        guard.release().await.unwrap();
    }
}

/// If one of several locks is lost, the locks that are still held are released.
#[tokio::test]
async fn what_is_not_held_any_more_is_lost() {
    let server = Server::start();
    let mut client = server.client();
    let locks = with(LONG, url(&server)).await;
    let text = locks.lock("a").acquire().await.unwrap().detach().await.unwrap();
    client.say("SET a data");
    assert!(matches!(locks.adopt(&text).await.unwrap_err().loss(), Some(Loss::Overwritten(_))));
    let text = locks.all(["x", "y", "z"]).acquire().await.unwrap().detach().await.unwrap();
    client.say("RLOCK.BREAK y");
    assert!(matches!(locks.adopt(&text).await.unwrap_err().loss(), Some(Loss::NotHeld)));
    for key in ["x", "z"] {
        until_nothing_is_left(&mut client, key).await;
    }
}

/// Whether the request or its reply is lost, the client repeats the request.
#[tokio::test]
async fn a_connection_that_breaks_does_no_harm() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = with(LONG, network.url()).await;
    for (guard, keys) in of_each_kind(&locks).await {
        network.cut_at_request();
        let text = guard.detach().await.unwrap_or_else(|error| panic!("{keys:?}: {error}"));
        network.cut_at_request();
        let guard = locks.adopt(&text).await.unwrap_or_else(|error| panic!("{keys:?}: {error}"));
        network.hold_back();
        let detaching = tokio::spawn(guard.detach());
        tokio::task::yield_now().await;
        network.cut();
        let text = detaching.await.unwrap().unwrap_or_else(|error| panic!("{keys:?}: {error}"));
        network.let_through();
        locks.adopt(&text).await.unwrap().release().await.unwrap();
        for key in keys {
            until_nothing_is_left(&mut client, key).await;
        }
    }
}

#[tokio::test]
async fn dropped_futures_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let (locks, others) = (with(LEASE, url(&server)).await, with(LEASE, url(&server)).await);
    let guard = locks.all(["a", "b"]).acquire().await.unwrap();
    for steps in 0..30 {
        let mut detaching = pin!(guard.detach());
        let mut is_done = false;
        for _ in 0..steps {
            is_done = is_done || detaching.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            std::thread::sleep(Duration::from_micros(20));
        }
        if is_done {
            break;
        }
    }
    drop(guard);
    locks.settle().await;
    let mut text = locks.all(["a", "b"]).acquire().await.unwrap().detach().await.unwrap();
    for steps in 0..30 {
        let handed = text.clone();
        let mut adopting = pin!(others.adopt(&handed));
        for _ in 0..steps {
            if let Poll::Ready(adopted) = adopting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                text = adopted.unwrap().detach().await.unwrap();
                break;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    others.settle().await;
    assert!(exists(&mut client, "a") && exists(&mut client, "b"));
    others.adopt(&text).await.unwrap().release().await.unwrap();
    until_nothing_is_left(&mut client, "a").await;
}
