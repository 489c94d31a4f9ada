//! One time limit covers everything: connecting, asking, waiting, and confirming a grant. The rest is done in the
//! background.
//!
//! On a busy machine the lateness of a call says little. So each call is compared with a sleep of the same length that
//! begins with it, and the best of several tries counts: a defect that delays a call by a second or two does so each
//! time.

use crate::proxy::Proxy;
use crate::support::{settled, until, until_nothing_is_left, url};
use rlock_client::{Error, Locks};
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LIMIT: Duration = Duration::from_millis(100);

/// By how much a call may be later than a sleep.
const LATENESS: Duration = Duration::from_millis(150);

const TRIES: usize = 3;

/// How much longer the call took than a sleep of this length, and the call's result.
async fn lateness<T>(limit: Duration, call: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let call = async { (call.await, began.elapsed()) };
    let control = async {
        sleep(limit).await;
        began.elapsed()
    };
    let ((result, took), control) = tokio::join!(call, control);
    (took.saturating_sub(control), result)
}

/// Makes calls until one of them is in time. All of them have to fail.
///
/// # Panics
/// If no call is in time.
async fn is_kept<T>(call: impl AsyncFn() -> (Duration, Result<T, Error>)) {
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let (late, result) = call().await;
        let Err(error) = result else { panic!("no server could answer") };
        assert!(error.is_timeout() || error.is_unavailable(), "{error}");
        if late <= LATENESS {
            return;
        }
        all.push(late);
    }
    panic!("each call was too late, by {all:?}");
}

/// The connections have broken, and a silent server accepts new ones.
#[tokio::test]
async fn a_connection_that_does_not_come_about_does_not_lengthen_it() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::options().connect_timeout(LIMIT * 30).connect_to(network.url()).await.unwrap();
    let lock = locks.lock("a");
    network.hold_back_everything();
    network.cut();
    is_kept(async || lateness(LIMIT, lock.acquire_timeout(LIMIT)).await).await;
    network.let_through();
    settled(&locks).await;
    until_nothing_is_left(&mut client, "a").await;
}

/// A try may take as long as a reply may, even if it has to open a connection first.
#[tokio::test]
async fn a_try_takes_no_longer_than_an_answer_may() {
    let server = Server::start();
    let mut client = server.client();
    let answer = LIMIT * 3;
    let options = Locks::options().answer_timeout(answer);
    let locks = options.connect_to(url(&server)).await.unwrap();
    let lock = locks.lock("a");
    server.freeze();
    assert!(lock.try_acquire().await.unwrap_err().is_unavailable());
    is_kept(async || lateness(answer, lock.try_acquire()).await).await;
    server.thaw();
    settled(&locks).await;
    until("what was sent has come", || client.figure("grants") > 0).await;
    until_nothing_is_left(&mut client, "a").await;
}
