//! One caller works, and all get its answer: where the lease ends, replies are lost, work panics and callers go. What the
//! clients of all languages promise of it is in clients/conformance/tests/conformance/once.rs and leaders.rs.

use crate::proxy::Proxy;
use crate::support::{calls, exists, locks_on, settled, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{Begun, Error, ErrorKind, Lead, Locks, Once};
use rlock_testing::{Client, PATIENCE, Reply, Server, text};
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

async fn answer(begun: JoinHandle<Result<Begun, Error>>) -> Vec<u8> {
    match timeout(PATIENCE, begun).await.expect("it is answered").unwrap().unwrap() {
        Begun::Answer(value) => value,
        Begun::Lead(lead) => panic!("it leads: {lead:?}"),
    }
}

async fn its_turn(begun: JoinHandle<Result<Begun, Error>>) -> Lead {
    match timeout(PATIENCE, begun).await.expect("it has its turn").unwrap().unwrap() {
        Begun::Lead(lead) => lead,
        Begun::Answer(value) => panic!("there is an answer: {value:?}"),
    }
}

/// Also such as the server has words for.
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
        assert_eq!(answer(waits_there).await, value);
        assert_eq!(waits.clone().wait(Duration::ZERO).run(pending::<Result<_, Error>>()).await.unwrap(), value);
        assert_eq!(once.run(pending::<Result<_, Error>>()).await.unwrap(), value);
    }
}

/// The work is dropped, nothing is stored, and the next caller of the same client works.
#[tokio::test]
async fn a_lease_that_ends_in_the_work() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let once = locks.once("a", KEEP).lease(SECOND);
    let works = tokio::spawn(once.clone().run(pending::<Result<_, Error>>()));
    until("it works", || exists(&mut client, "a")).await;
    let next = begins(&once);
    client.say("RLOCK.BREAK a");
    let error = works.await.unwrap().unwrap_err();
    assert!(error.is_lost() && error.loss().is_some(), "{error}");
    its_turn(next).await.answer("second").await.unwrap();
    assert_eq!(stored(&mut client, "a"), text("second"));
}

/// The leader does not know of the loss yet; another one leads by then, or has answered.
#[tokio::test]
async fn a_leader_that_is_late_stores_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let leads = lead(&locks.once("a", KEEP)).await;
    client.say("RLOCK.BREAK a");
    client.say("RLOCK.ONCE a other 600000");
    assert!(leads.answer("late").await.unwrap_err().loss().is_some());
    assert_eq!(stored(&mut client, "a"), Reply::Nil);
    client.say("RLOCK.ANSWER a other theirs KEEP 600000");
    let leads = lead(&locks.once("b", KEEP)).await;
    client.say("RLOCK.BREAK b");
    client.say("RLOCK.ONCE b other 600000");
    client.say("RLOCK.ANSWER b other theirs KEEP 600000");
    assert!(leads.answer("late").await.unwrap_err().loss().is_some());
    assert_eq!(stored(&mut client, "b"), text("theirs"));
}

/// The request is lost with its connection: it is repeated, and all get the answer.
#[tokio::test]
async fn an_answer_that_is_lost_on_its_way_is_sent_again() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    let once = locks.once("a", KEEP);
    let leads = lead(&once).await;
    let behind = begins(&once);
    network.cut_at_request();
    leads.answer("value").await.unwrap();
    assert_eq!(answer(behind).await, b"value");
    assert_eq!((calls(&mut client, "rlock.answer"), stored(&mut client, "a")), (1, text("value")));
}

/// Nobody knows whether it is stored: its caller has its value all the same, and the others ask again.
#[tokio::test]
async fn an_answer_without_a_reply() {
    let server = Server::start();
    let mut client = server.client();
    let options = Locks::options().answer_timeout(SECOND / 5);
    let locks = options.connect_to(url(&server)).await.unwrap();
    let once = locks.once("a", KEEP);
    let leads = lead(&once).await;
    let behind = begins(&once);
    server.freeze();
    leads.answer("value").await.unwrap();
    server.thaw();
    assert_eq!(answer(behind).await, b"value");
    settled(&locks).await;
    assert_eq!(stored(&mut client, "a"), text("value"));
}

/// What has not come to the server by then is stored by no later request, though the server has the lease for longer.
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

/// Whatever ends the work, its lock is released, and the next caller of the same client works.
#[tokio::test]
async fn work_that_comes_to_no_answer() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let once = locks.once("a", KEEP);
    for how in ["fails", "panics", "is dropped"] {
        let work = async move {
            match how {
                "fails" => Err(Error::configuration("a", "the work's own")),
                "panics" => panic!("as it is meant"),
                _ => pending().await,
            }
        };
        let (end, ended) = oneshot::channel::<()>();
        let works = tokio::spawn(once.clone().run::<Error>(async move {
            ended.await.unwrap();
            work.await
        }));
        until("it works", || exists(&mut client, "a")).await;
        let next = begins(&once);
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        if how == "is dropped" {
            works.abort();
        }
        let leads = its_turn(next).await;
        match works.await {
            Ok(ran) => assert_eq!(ran.unwrap_err().kind(), ErrorKind::Configuration),
            Err(ended) => assert!(ended.is_panic() == (how == "panics")),
        }
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

/// What is told at once is not all.
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
