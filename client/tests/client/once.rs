//! One caller works, and all get its answer: what happens if a lease ends, work panics, callers leave or servers are gone.
//! clients/conformance/tests/conformance/once.rs and leaders.rs have the promises of clients in all languages.

use crate::proxy::Proxy;
use crate::support::{calls, exists, locks_on, settled, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{Begun, Error, ErrorKind, Lead, Locks, Once};
use rlock_testing::{Client, PATIENCE, Reply, Server};
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const KEEP: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

fn stored(client: &mut Client, key: &str) -> Reply {
    client.run(&["GET", &format!("rlock_answer:{{{key}}}")])
}

async fn lead(once: &Once) -> Lead {
    match once.begin().await.unwrap() {
        Begun::Lead(lead) => lead,
        Begun::Answer(value) => panic!("there is an answer: {value:?}"),
    }
}

fn begins(once: &Once) -> JoinHandle<Result<Begun, Error>> {
    let once = once.clone();
    tokio::spawn(async move { once.begin().await })
}

async fn begun(begins: JoinHandle<Result<Begun, Error>>) -> Begun {
    timeout(PATIENCE, begins).await.expect("it is answered").unwrap().unwrap()
}

/// Including answers that look like the server's own words.
#[tokio::test]
async fn any_bytes_are_an_answer() {
    let server = Server::start();
    let mut client = server.client();
    let [here, there] = [locks_on(&server).await, locks_on(&server).await];
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for (number, value) in [&b""[..], b"WAITING", b"OK", b"\r\n", b"-ERR no", &all].into_iter().enumerate() {
        let key = number.to_string();
        let [once, waits] = [&here, &there].map(|locks| locks.once(&key, KEEP));
        let leads = lead(&once).await;
        let waits_there = begins(&waits);
        until_waiting(&mut client, 1).await;
        leads.answer(value).await.unwrap();
        assert!(matches!(begun(waits_there).await, Begun::Answer(got) if got == value));
        assert_eq!(waits.clone().wait(Duration::ZERO).run(pending::<Result<_, Error>>()).await.unwrap(), value);
        assert_eq!(once.run(pending::<Result<_, Error>>()).await.unwrap(), value);
    }
}

/// If the answer has not reached the server by the deadline, no later request stores it, although the server's lease
/// lasts longer.
#[tokio::test]
async fn an_answer_is_not_stored_when_the_lease_is_not_guaranteed_any_more() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let options = Locks::options().answer_timeout(SECOND / 5);
    let locks = options.connect_to(network.url()).await.unwrap();
    let once = locks.once("a", KEEP).lease(SECOND);
    let leads = lead(&once).await;
    network.hold_back_everything();
    client.run(&["RLOCK.RENEW", "a", &leads.guard().holder(), "600000"]);
    let ends = Instant::now() + leads.guard().remaining();
    leads.answer("value").await.unwrap();
    until("the lease has ended as far as the client knows", || Instant::now() >= ends).await;
    network.cut();
    network.let_through();
    settled(&locks).await;
    until_nothing_is_left(&mut client, "a").await;
    assert_eq!((calls(&mut client, "rlock.answer"), stored(&mut client, "a")), (0, Reply::Nil));
}

/// The lock is another process's, so the answer is not stored: no caller gets it.
#[tokio::test]
async fn a_lead_that_is_detached_has_no_answer() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let once = locks.once("a", KEEP);
    let leads = lead(&once).await;
    let next = begins(&once);
    tokio::task::yield_now().await;
    let text = leads.guard().detach().await.unwrap();
    assert!(leads.answer("value").await.unwrap_err().is_lost());
    assert_eq!(stored(&mut client, "a"), Reply::Nil);
    locks.adopt(text).await.unwrap().release().await.unwrap();
    assert!(matches!(begun(next).await, Begun::Lead(_)));
}

/// However the work ends, its lock is released, and the next caller of the same client works.
#[tokio::test]
async fn work_that_comes_to_no_answer() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let once = locks.once("a", KEEP);
    for panics in [true, false] {
        let (end, ended) = oneshot::channel::<()>();
        let works = tokio::spawn(once.clone().run::<Error>(async move {
            ended.await.unwrap();
            if panics {
                panic!("as it is meant");
            }
            pending().await
        }));
        until("it works", || exists(&mut client, "a")).await;
        let next = begins(&once);
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        if !panics {
            works.abort();
        }
        let Begun::Lead(leads) = begun(next).await else { panic!("there is an answer") };
        assert_eq!(works.await.unwrap_err().is_panic(), panics);
        drop(leads);
        settled(&locks).await;
        until_nothing_is_left(&mut client, "a").await;
        assert_eq!(stored(&mut client, "a"), Reply::Nil);
    }
}

#[tokio::test]
async fn dropped_anywhere_it_leaves_nothing_behind() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let once = locks.once("a", KEEP);
    for is_taken in [false, true] {
        if is_taken {
            client.say("RLOCK.ONCE a other 600000");
        }
        for steps in 0..40 {
            {
                let mut begun = pin!(once.begin());
                for _ in 0..steps {
                    if begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(20));
                    tokio::task::yield_now().await;
                }
            }
            settled(&locks).await;
            assert_eq!((client.figure("waiters"), exists(&mut client, "a")), (0, is_taken), "{steps} steps");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_it() {
    let server = Server::start();
    let network = Proxy::to(&server);
    network.make_the_server_older();
    let locks = Locks::connect(network.url()).await.unwrap();
    let error = locks.once("a", KEEP).begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModuleTooOld, "{error}");
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some(), "a lock is no answer");
}

/// Callers behind one that finds no server share its error: one after the other they would wait for an hour.
#[tokio::test]
async fn an_outage_is_the_outcome_of_all() {
    let server = Server::start();
    let locks =
        Locks::options().answer_timeout(SECOND / 10).patience(SECOND / 5).connect_to(url(&server)).await.unwrap();
    server.freeze();
    let began = Instant::now();
    let all: Vec<_> = (0..100).map(|_| begins(&locks.once("a", KEEP))).collect();
    let mut took = None;
    for begun in all {
        assert_eq!(begun.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
        let one = *took.get_or_insert_with(|| began.elapsed());
        assert!(began.elapsed() < one * 10, "they have failed one after the other");
    }
    server.thaw();
}

/// The error comes at once, but the release is still under way.
#[tokio::test]
async fn a_client_settles_when_the_lock_of_a_refused_answer_is_free() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for _ in 0..20 {
        let error = lead(&locks.once("a", KEEP)).await.answer([0; 65_537]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        locks.settle().await;
        assert!(!exists(&mut client, "a"));
    }
}
