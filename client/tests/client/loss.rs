//! Servers that stall, end or forget: locks that can be kept are kept, and losses are reported in time, with the
//! reason. clients/conformance/tests/conformance/losses.rs has the promises of clients in all languages.

use crate::proxy::Proxy;
use crate::support::{calls, exists, until, until_nothing_is_left, url};
use futures_util::future::join_all;
use rlock_client::{Error, ErrorKind, Guard, Locks, Loss, Options};
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const LEASE: Duration = Duration::from_secs(2);

/// Longer than a server takes to start again, on a busy machine too.
const LONG: Duration = Duration::from_secs(10);

/// Longer than a healthy server takes to reply.
const SHORT: Duration = Duration::from_millis(300);

async fn impatient(server: &Server) -> Locks {
    let options = Locks::options().lease(LEASE).answer_timeout(SHORT).patience(LEASE);
    options.connect_to(url(server)).await.unwrap()
}

/// An abandoned request arrives after the release that should have taken it back.
#[tokio::test]
async fn a_request_that_arrives_after_its_release_is_taken_back() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::options().answer_timeout(SHORT).connect_to(network.url()).await.unwrap();
    network.hold_back();
    assert!(locks.lock("a").try_acquire().await.unwrap_err().is_unavailable());
    until("it was released, though it has not come", || calls(&mut client, "rlock.release") > 0).await;
    assert_eq!(client.figure("grants"), 0);
    network.let_through();
    until("it comes", || client.figure("grants") == 1).await;
    until_nothing_is_left(&mut client, "a").await;
}

/// The request is taken back, however long the server was stalled.
#[tokio::test]
async fn a_request_to_a_server_that_is_frozen_for_longer_than_the_lease() {
    let server = Server::start();
    let mut client = server.client();
    let locks = impatient(&server).await;
    server.freeze();
    let began = Instant::now();
    assert!(locks.lock("a").try_acquire().await.unwrap_err().is_unavailable());
    until("longer than a lease", || began.elapsed() > LEASE + Duration::from_millis(500)).await;
    server.thaw();
    let thawed = Instant::now();
    until("it has come, and was taken back", || client.figure("grants") == 1 && !exists(&mut client, "a")).await;
    assert!(thawed.elapsed() < LEASE, "its lease has ended, which shows nothing");
}

#[tokio::test]
async fn a_server_that_comes_back_with_its_data_has_the_lock_still() {
    let server = Server::prepare().options(&["--appendonly", "yes", "--appendfsync", "always"]).start();
    let locks = impatient(&server).await;
    let guard = locks.lock("orders:42").lease(LONG).acquire().await.unwrap();
    let server = server.crash().options(&["--appendonly", "yes"]).start();
    let mut client = server.client();
    let end = client.expiry("orders:42");
    until("it is renewed", || client.expiry("orders:42") > end).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

/// A guard for each way of releasing.
async fn guards_of_all_kinds(locks: &Locks) -> Vec<Guard> {
    let all = [
        locks.lock("plain"),
        locks.lock("owned").owner("job-7"),
        locks.read_write("prices").write(),
        locks.lock("fixed").fixed_lease(LEASE),
    ];
    let mut guards = Vec::new();
    for lock in all {
        guards.push(lock.acquire().await.unwrap());
    }
    guards.push(locks.all(["from", "to"]).acquire().await.unwrap());
    guards.push(locks.permits("gpu", 2).acquire().await.unwrap());
    guards
}

/// Begins to release guards of all kinds while the server stalls, for this time.
async fn released_while_frozen(options: Options, time: Duration) -> Vec<Result<(), Error>> {
    let server = Server::start();
    let guards = guards_of_all_kinds(&options.connect_to(url(&server)).await.unwrap()).await;
    server.freeze();
    let releases: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.release())).collect();
    let began = Instant::now();
    until("it has stalled for long enough", || began.elapsed() > time).await;
    server.thaw();
    let released = join_all(releases).await.into_iter().map(Result::unwrap).collect();
    until("nothing is left", || server.client().keys().is_empty()).await;
    released
}

/// The server executes the first request after the client has given up its reply, and the next request finds nothing.
#[tokio::test]
async fn a_release_after_a_request_without_its_reply_is_no_loss() {
    let options = Locks::options().lease(LEASE * 300).answer_timeout(SHORT).connect_timeout(SHORT);
    for released in released_while_frozen(options, SHORT * 3).await {
        released.unwrap();
    }
}

/// The only reply comes after the end of the lease. The work was done before that; but the reply is not success.
#[tokio::test]
async fn a_lease_that_ends_during_its_release_is_no_loss() {
    for released in released_while_frozen(Locks::options().lease(LEASE).answer_timeout(LEASE * 5), LEASE * 2).await {
        let error = released.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
}

/// A lock that was lost before its release stays lost, even if no server is left to reply.
#[tokio::test]
async fn a_release_that_comes_too_late_is_a_loss_even_without_a_server() {
    let server = Server::start();
    let options = Locks::options().lease(LEASE).patience(Duration::from_millis(100));
    let locks = options.connect_to(url(&server)).await.unwrap();
    let guards = guards_of_all_kinds(&locks).await;
    drop(server);
    for guard in guards {
        guard.lost().await;
        assert!(guard.release().await.unwrap_err().is_lost());
    }
}

/// Sends commands to a server, and returns why its guard is lost.
async fn loss_by(server: &Server, trouble: &[&str]) -> Loss {
    let mut client = server.client();
    let guard = impatient(server).await.lock("orders:42").acquire().await.unwrap();
    assert!(guard.loss().is_none());
    for command in trouble {
        // Does not wait for a reply: a server that shuts down sends none.
        client.send(&command.split(' ').collect::<Vec<_>>());
    }
    loss_of(&guard).await
}

/// Fails after several leases, instead of waiting forever.
async fn loss_of(guard: &Guard) -> Loss {
    timeout(LEASE * 5, guard.lost()).await.expect("it is lost");
    guard.loss().expect("why it is lost")
}

#[tokio::test]
async fn the_loss_says_why_the_lease_could_not_be_renewed() {
    let cases: [(&[&str], ErrorKind, Option<&str>); 3] = [
        (&["ACL SETUSER default -rlock.renew"], ErrorKind::Refused, Some("NOPERM")),
        (&["CONFIG SET requirepass new", "CLIENT KILL TYPE normal SKIPME yes"], ErrorKind::Refused, Some("NOAUTH")),
        (&["SHUTDOWN NOSAVE"], ErrorKind::Unavailable, None),
    ];
    let all = cases.map(|(trouble, kind, code)| async move {
        let loss = loss_by(&Server::start(), trouble).await;
        expect_not_renewed(&loss, kind, code);
    });
    join_all(all).await;
}

/// A server that was restarted with another configuration.
#[tokio::test]
async fn a_loss_names_a_server_that_comes_back_without_the_module() {
    let server = Server::start();
    let guard = impatient(&server).await.lock("orders:42").lease(LONG).acquire().await.unwrap();
    let _without = server.crash().without_module().start();
    expect_not_renewed(&loss_of(&guard).await, ErrorKind::ModuleMissing, Some("ERR"));
}

fn expect_not_renewed(loss: &Loss, kind: ErrorKind, code: Option<&str>) {
    let Loss::NotRenewed(error) = loss else { panic!("{loss:?}") };
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    let text_of_loss = loss.to_string();
    let words = text_of_loss.strip_prefix("the lease could not be renewed: ").expect("why");
    assert!(error.to_string().ends_with(words), "{loss}");
}
