//! Connections that break while a lock is held: it is asked after at once, and a release says no more than is known.

use crate::proxy::Proxy;
use crate::support::{exists, until, until_nothing_is_left, until_waiting, url, waits_for};
use rlock_client::{Guard, Locks};
use rlock_testing::{Reply, Server, Start};
use std::time::Duration;

/// So long that no renewal comes by itself while a test runs.
const LEASE: Duration = Duration::from_secs(3_600);

async fn locks_at(url: impl Into<String>) -> Locks {
    Locks::options().lease(LEASE).connect_to(url.into()).await.unwrap()
}

/// Somebody has it in the meantime. They are gone again when this returns.
fn another_one_has_it(server: &Server, key: &str) {
    let mut client = server.client();
    assert_eq!(client.run(&["RLOCK.ACQUIRE", key, "another", "60000"]), Reply::Nil, "the server has forgotten all");
    assert_eq!(client.run(&["RLOCK.RELEASE", key, "another"]), Reply::Int(1));
}

/// The guards of each kind that a release treats differently.
async fn guards(locks: &Locks) -> Vec<(&'static str, Guard)> {
    let (plain, owned) = (locks.lock("plain"), locks.lock("owned").owner("job-7"));
    vec![("plain", plain.acquire().await.unwrap()), ("owned", owned.acquire().await.unwrap())]
}

/// Ends the server as an operator does. What comes next is at the same addresses.
fn shut_down(server: Server) -> Start {
    let port = server.port().to_string();
    server.client().send(&["SHUTDOWN", "NOSAVE"]);
    let mut server = server;
    rlock_testing::wait_until("it has ended", || !server.is_running());
    server.crash().options(&["--port", &port])
}

/// Over a unix socket and over TCP, whose connections break in different ways.
fn addresses(server: &Server) -> [String; 2] {
    [url(server), format!("redis://127.0.0.1:{}", server.port())]
}

/// The next renewal is twenty minutes away, and must not be waited for.
#[tokio::test]
async fn a_server_that_comes_back_without_its_locks_is_noticed_at_once() {
    for address in 0..2 {
        let server = Server::start();
        let locks = locks_at(&addresses(&server)[address]).await;
        let guards = guards(&locks).await;
        let server = shut_down(server).start();
        for (key, guard) in guards {
            another_one_has_it(&server, key);
            tokio::time::timeout(rlock_testing::PATIENCE, guard.lost()).await.expect("it is noticed");
            let error = guard.release().await.unwrap_err();
            assert!(error.is_lost(), "{error}");
        }
    }
}

/// The release may be what finds the connection broken, or come after that was seen, and the server asked. What it finds
/// then is not its own doing.
#[tokio::test]
async fn a_release_right_after_a_break_is_no_success() {
    for address in 0..2 {
        let server = Server::start();
        let locks = locks_at(&addresses(&server)[address]).await;
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

/// Nothing was sent that could have given it back, so there is no doubt either. The lease is a fixed one: nobody renews
/// it, and the other one tells when the break was noticed.
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
async fn a_connection_that_breaks_is_made_anew_and_the_lease_renewed_at_once() {
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

/// It was not given back by the request that was lost, but by the next, whose answer says that it was held until then.
#[tokio::test]
async fn a_release_that_is_lost_on_its_way_is_made_once_more() {
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

/// The lock was given back, and the answer that said so is lost. The next one, that nothing is held, would be the same
/// if somebody had taken it away before.
#[tokio::test]
async fn a_release_whose_answer_is_lost_with_its_connection_is_in_doubt() {
    for taken_away in [false, true] {
        let server = Server::start();
        let mut client = server.client();
        let network = Proxy::to(&server);
        let locks = locks_at(network.url()).await;
        for (key, guard) in guards(&locks).await {
            if taken_away {
                client.run(&["RLOCK.BREAK", key]);
            }
            network.cut_at_answer();
            let error = guard.release().await.unwrap_err();
            assert!(error.is_lost() && error.is_in_doubt(), "{key}: {error}");
            assert_eq!(error.loss(), None, "{error}");
            assert!(!exists(&mut client, key));
        }
    }
}

/// An answer that comes late is an answer: there is no doubt.
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
        let released = |client: &mut rlock_testing::Client| {
            client.say("INFO commandstats").as_text().contains("cmdstat_rlock.release:calls=1,")
        };
        until("the second has come", || released(&mut client)).await;
        network.let_through();
        let error = release.await.unwrap().unwrap_err();
        assert!(error.is_lost() && !error.is_in_doubt(), "{key}: {error}");
        client.say("CONFIG RESETSTAT");
    }
}

/// The connections break, and at the same time the lock becomes free: however the two meet, the wait is not forgotten.
#[tokio::test]
async fn a_grant_that_comes_while_connections_are_made_anew_is_heard_of() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_at(url(&server)).await;
    for round in 0..100 {
        client.say("RLOCK.ACQUIRE a other 600000");
        let waits = waits_for(locks.lock("a"));
        until_waiting(&mut client, 1).await;
        // Also while they are being made anew: then it asks again.
        for _ in 0..4 {
            client.say("CLIENT KILL TYPE normal SKIPME yes");
            std::thread::sleep(Duration::from_micros(10 * round));
        }
        client.say("RLOCK.RELEASE a other");
        let guard = tokio::time::timeout(Duration::from_secs(10), waits).await.expect("it is told").unwrap().unwrap();
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&mut client, "a").await;
}
