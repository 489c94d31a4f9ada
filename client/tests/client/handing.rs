//! A lock that one process detaches and another one adopts: it is held all the time, and by one that knows of it.

use crate::proxy::Proxy;
use crate::support::{calls, exists, locks_on, until, until_nothing_is_left, url};
use rlock_client::{Error, ErrorKind, Guard, Locks, Loss};
use rlock_testing::{PATIENCE, Server};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::timeout;

const LEASE: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

async fn with(lease: Duration, url: String) -> Locks {
    Locks::options().lease(lease).connect_to(url).await.unwrap()
}

fn is_not_held(error: &Error) -> bool {
    matches!(error.loss(), Some(Loss::NotHeld))
}

/// The guards of each kind, and the keys of each.
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
async fn each_kind_is_handed_on_and_kept_by_the_other() {
    let server = Server::start();
    let mut client = server.client();
    let (locks, others) = (with(LEASE, url(&server)).await, with(LEASE, url(&server)).await);
    for (guard, keys) in of_each_kind(&locks).await {
        let (holder, text) = (guard.holder().into_owned(), guard.detach().await.unwrap());
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert!(guard.is_lost() && guard.detach().await.unwrap_err().is_lost(), "it has nothing any more");
        drop(guard);
        let guard = others.adopt(&text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(guard.holder(), holder);
        for key in &keys {
            let began = client.expiry(key);
            until("it was renewed for longer than a lease", || client.expiry(key) > began + 1_000).await;
        }
        assert!(!guard.is_lost() && guard.remaining() <= LEASE);
        guard.release().await.unwrap();
        for key in keys {
            until_nothing_is_left(&mut client, key).await;
        }
    }
}

#[tokio::test]
async fn tokens_go_with_the_lock() {
    let server = Server::start();
    let (locks, others) = (locks_on(&server).await, locks_on(&server).await);
    let guard = locks.lock("a").fenced().acquire().await.unwrap();
    let adopted = others.adopt(guard.detach().await.unwrap()).await.unwrap();
    assert_eq!(adopted.token(), Some(guard.token()));
    let again = locks.adopt(adopted.unfenced().detach().await.unwrap()).await.unwrap();
    assert_eq!(again.tokens(), [guard.token()]);
    let several = locks.all(["b", "c"]).fenced().acquire().await.unwrap();
    let adopted = others.adopt(several.detach().await.unwrap()).await.unwrap();
    assert!(several.tokens().eq(adopted.tokens().iter().copied()));
    let plain = locks.lock("d").acquire().await.unwrap();
    assert_eq!(others.adopt(plain.detach().await.unwrap()).await.unwrap().token(), None);
}

#[tokio::test]
async fn it_is_kept_for_as_long_as_is_said_and_no_longer() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let left = |client: &mut rlock_testing::Client| client.run(&["PTTL", "a"]).as_int();
    for within in [2_000, 500_000] {
        let guard = locks.lock("a").acquire().await.unwrap();
        let text = guard.detach_within(Duration::from_millis(within)).await.unwrap();
        let (within, left) = (i64::try_from(within).unwrap(), left(&mut client));
        assert!((within / 2..=within).contains(&left), "{left}");
        locks.adopt(&text).await.unwrap().release().await.unwrap();
    }
    let text = locks.lock("a").acquire().await.unwrap().detach_within(Duration::from_millis(50)).await.unwrap();
    until("its lease has ended", || !exists(&mut client, "a")).await;
    assert!(is_not_held(&locks.adopt(&text).await.unwrap_err()));
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_sent() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let fixed = locks.lock("fixed").fixed_lease(LONG).acquire().await.unwrap();
    let twice = locks.lock("twice").owner("job-7");
    let twice = [twice.acquire().await.unwrap(), twice.acquire().await.unwrap()];
    let kept = locks.lock("kept").acquire().await.unwrap();
    let renewals = calls(&mut client, "rlock.renew");
    let errors = [
        fixed.detach().await.unwrap_err(),
        twice[0].detach().await.unwrap_err(),
        kept.detach_within(Duration::ZERO).await.unwrap_err(),
        locks.adopt("rlock1/plain/1000/0/-/h").await.unwrap_err(),
        locks.adopt(b"\xFF").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
    assert_eq!(calls(&mut client, "rlock.renew"), renewals);
    for guard in [fixed, kept].into_iter().chain(twice) {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_not_held_any_more_is_lost() {
    let server = Server::start();
    let mut client = server.client();
    let locks = with(LONG, url(&server)).await;
    let guard = locks.lock("a").acquire().await.unwrap();
    client.say("RLOCK.BREAK a");
    assert!(is_not_held(&guard.detach().await.unwrap_err()));
    assert!(guard.is_lost());
    timeout(PATIENCE, guard.lost()).await.expect("the guard knows");
    let text = locks.lock("a").acquire().await.unwrap().detach().await.unwrap();
    client.say("RLOCK.BREAK a");
    assert!(is_not_held(&locks.adopt(&text).await.unwrap_err()));
    client.say("SET a data");
    assert!(matches!(locks.adopt(&text).await.unwrap_err().loss(), Some(Loss::Overwritten(_))));
    let text = locks.all(["x", "y", "z"]).acquire().await.unwrap().detach().await.unwrap();
    client.say("RLOCK.BREAK y");
    assert!(is_not_held(&locks.adopt(&text).await.unwrap_err()));
    for key in ["x", "z"] {
        until_nothing_is_left(&mut client, key).await;
    }
}

/// Under one holder: what one of them releases the other one has lost.
#[tokio::test]
async fn it_can_be_adopted_twice() {
    let server = Server::start();
    let locks = with(LEASE, url(&server)).await;
    let text = locks.lock("a").acquire().await.unwrap().detach().await.unwrap();
    let [first, second] = [locks.adopt(&text).await.unwrap(), locks.adopt(&text).await.unwrap()];
    first.release().await.unwrap();
    timeout(PATIENCE, second.lost()).await.expect("it is lost");
    assert!(is_not_held(&second.release().await.unwrap_err()));
}

/// Whether the request is lost or its reply: it is repeated.
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

/// The reply comes in no time: the guard is as before, but for a lease that the server may have cut.
#[tokio::test]
async fn a_guard_that_could_not_be_detached_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    let second = Duration::from_secs(1);
    let options = Locks::options().answer_timeout(second / 10).patience(second / 2);
    let locks = options.connect_to(url(&server)).await.unwrap();
    for (guard, keys) in of_each_kind(&locks).await {
        server.freeze();
        let error = guard.detach_within(10 * second).await.unwrap_err();
        assert!(error.is_unavailable() && !guard.is_lost(), "{keys:?}: {error}");
        assert!(guard.remaining() <= 10 * second, "{keys:?}: the server may have cut it");
        server.thaw();
        let began = client.expiry(keys[0]);
        until("it is renewed", || client.expiry(keys[0]) > began).await;
        assert!(!guard.is_lost(), "{keys:?}: {:?}", guard.loss());
        // No reply is overdue any more, so that the whole lease counts again.
        until("it is whole again", || guard.remaining() > 20 * second).await;
        guard.release().await.unwrap();
    }
}

/// Whoever waits for the loss hears of it in time, though the lease was longer before.
#[tokio::test]
async fn a_lease_that_may_have_been_cut_ends_in_time() {
    let server = Server::start();
    let second = Duration::from_secs(1);
    let options = Locks::options().lease(LONG).patience(second / 2);
    let locks = options.connect_to(url(&server)).await.unwrap();
    let guard = locks.lock("a").acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    tokio::task::yield_now().await;
    server.freeze();
    assert!(guard.detach_within(2 * second).await.unwrap_err().is_unavailable());
    timeout(PATIENCE, lost).await.expect("it is lost").unwrap();
    assert!(guard.is_lost());
    server.thaw();
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
