//! Connections that break while a lock is held: the client checks the lock at once, and a release claims no more than
//! is known. clients/conformance/tests/conformance/breaks.rs has the promises of clients in all languages.

use crate::proxy::Proxy;
use crate::support::{calls, exists, until, url};
use rlock_client::{Guard, Locks};
use rlock_testing::{Reply, Server, Start};
use std::time::Duration;

/// Too long for a regular renewal during a test.
const LEASE: Duration = Duration::from_secs(3_600);

async fn locks_at(url: impl Into<String>) -> Locks {
    Locks::options().lease(LEASE).connect_to(url.into()).await.unwrap()
}

/// Another holder acquires the lock and releases it again.
fn another_one_has_it(server: &Server, key: &str) {
    let mut client = server.client();
    assert_eq!(client.run(&["RLOCK.ACQUIRE", key, "another", "60000"]), Reply::Nil, "the server has forgotten all");
    assert_eq!(client.run(&["RLOCK.RELEASE", key, "another"]), Reply::Int(1));
}

/// A guard of each kind that a release treats differently.
async fn guards(locks: &Locks) -> Vec<(&'static str, Guard)> {
    let (plain, owned) = (locks.lock("plain"), locks.lock("owned").owner("job-7"));
    vec![("plain", plain.acquire().await.unwrap()), ("owned", owned.acquire().await.unwrap())]
}

/// Ends the server as an operator does. The next server has the same addresses.
fn shut_down(server: Server) -> Start {
    let port = server.port().to_string();
    server.client().send(&["SHUTDOWN", "NOSAVE"]);
    let mut server = server;
    rlock_testing::wait_until("it has ended", || !server.is_running());
    server.crash().options(&["--port", &port])
}

/// The release may be the first to find the connection broken, or come after the client has noticed that and asked the
/// server. In neither case did it release the lock itself. Unix sockets and TCP connections break in different ways.
#[tokio::test]
async fn a_release_right_after_a_break_is_no_success() {
    for is_tcp in [false, true] {
        let server = Server::start();
        let tcp = format!("redis://127.0.0.1:{}", server.port());
        let locks = locks_at(if is_tcp { tcp } else { url(&server) }).await;
        let guards = guards(&locks).await;
        let server = shut_down(server).start();
        for (key, _) in &guards {
            another_one_has_it(&server, key);
        }
        for (key, guard) in guards {
            let error = guard.release().await.unwrap_err();
            assert!(error.is_lost(), "{key}: {error}");
        }
    }
}

/// No request was sent that could have released it, so there is no doubt. The lease is fixed, without renewals, and the
/// other lock shows when the break was noticed.
#[tokio::test]
async fn a_release_after_a_break_that_was_noticed_leaves_no_doubt() {
    let server = Server::start();
    let locks = locks_at(url(&server)).await;
    let fixed = locks.lock("fixed").fixed_lease(LEASE).acquire().await.unwrap();
    let kept = locks.lock("kept").acquire().await.unwrap();
    let _server = shut_down(server).start();
    tokio::time::timeout(rlock_testing::PATIENCE, kept.lost()).await.expect("it is noticed");
    assert!(!fixed.is_lost());
    let error = fixed.release().await.unwrap_err();
    assert!(error.is_lost() && !error.is_in_doubt(), "{error}");
}

#[tokio::test]
async fn a_broken_connection_is_replaced_and_the_lease_renewed_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = locks_at(network.url()).await;
    for (key, guard) in guards(&locks).await {
        let before = client.expiry(key);
        network.cut();
        until("it is renewed", || client.expiry(key) > before).await;
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
        assert!(!exists(&mut client, key));
    }
}

/// The lost request did not release it, but the next one did, and its reply proves that it was held until then.
#[tokio::test]
async fn a_release_that_is_lost_on_its_way_is_sent_again() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = locks_at(network.url()).await;
    for (key, guard) in guards(&locks).await {
        network.cut_at_request();
        guard.release().await.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(!exists(&mut client, key));
    }
}

/// A late reply is a reply: there is no doubt.
#[tokio::test]
async fn a_lock_that_was_taken_away_is_lost_whichever_answer_comes_first() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let options = Locks::options().lease(LEASE).answer_timeout(Duration::from_millis(200));
    let locks = options.connect_to(network.url()).await.unwrap();
    for (key, guard) in guards(&locks).await {
        client.run(&["RLOCK.BREAK", key]);
        // The first request is given up, the next one finds nothing, and then the first arrives and finds nothing
        // either.
        network.hold_back();
        let release = tokio::spawn(guard.release());
        until("the second has come", || calls(&mut client, "rlock.release") == 1).await;
        network.let_through();
        let error = release.await.unwrap().unwrap_err();
        assert!(error.is_lost() && !error.is_in_doubt(), "{key}: {error}");
        client.say("CONFIG RESETSTAT");
    }
}
