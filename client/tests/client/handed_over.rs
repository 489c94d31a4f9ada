//! A lock that was waited for is its caller's as soon as that is told, on the short lease of a wait, which the client makes
//! whole while the caller works. Until when the lease lasts is known without asking, and never too long.

use crate::proxy::Proxy;
use crate::support::{calls, locks_on, lost_before, until, until_nothing_is_left, until_waiting, url, waits_for};
use rlock_client::{ErrorKind, Guard, Lock, Locks, Loss};
use rlock_testing::{Client, Server};
use std::time::Duration;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(30);

/// What a wait asks for.
const SHORT_LEASE: Duration = Duration::from_secs(3);

const REFUSE_RENEWALS: &str = "ACL SETUSER default -rlock.renew";

/// Granted after a wait, by one who had it before.
async fn waited_for(client: &mut Client, lock: Lock) -> Guard {
    client.say("RLOCK.ACQUIRE a other 600000");
    let waits = waits_for(lock);
    until_waiting(client, 1).await;
    client.say("RLOCK.RELEASE a other");
    waits.await.unwrap().unwrap()
}

fn left_on_server(client: &mut Client) -> Duration {
    Duration::from_millis(u64::try_from(client.expiry("a") - client.time_ms()).unwrap())
}

/// No renewal gets through, so it is known by the event alone.
#[tokio::test]
async fn a_grant_is_handed_over_as_it_is_told() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    client.say(REFUSE_RENEWALS);
    let guard = waited_for(&mut client, locks.lock("a")).await;
    let left = guard.remaining();
    assert!(left > SHORT_LEASE / 3 && left < SHORT_LEASE, "{left:?}");
    // What cannot be renewed is lost in time.
    let end = Instant::now() + left_on_server(&mut client);
    lost_before(&guard, end).await;
    let loss = guard.loss().unwrap();
    assert!(matches!(&loss, Loss::NotRenewed(error) if error.kind() == ErrorKind::Refused), "{loss}");
}

#[tokio::test]
async fn its_lease_is_made_whole_beside_the_work() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let guard = waited_for(&mut client, locks.lock("a")).await;
    until("it is whole", || left_on_server(&mut client) > LEASE / 2 && guard.remaining() > LEASE / 2).await;
    assert_eq!(calls(&mut client, "rlock.renew"), 1);
    guard.release().await.unwrap();
    until_nothing_is_left(&mut client, "a").await;
}

/// However late it is told: the lease is counted from before it was asked for events.
#[tokio::test]
async fn its_lease_is_never_taken_for_longer_than_it_is() {
    let server = Server::start();
    let mut client = server.client();
    let network = Proxy::to(&server);
    let locks = Locks::connect(network.url()).await.unwrap();
    client.say(REFUSE_RENEWALS);
    client.say("RLOCK.ACQUIRE a other 600000");
    let waits = waits_for(locks.lock("a"));
    until_waiting(&mut client, 1).await;
    network.hold_back_what_is_told();
    client.say("RLOCK.RELEASE a other");
    until("it is told late", || left_on_server(&mut client) < SHORT_LEASE - Duration::from_millis(500)).await;
    let left = left_on_server(&mut client);
    network.let_through();
    let guard = waits.await.unwrap().unwrap();
    assert!(guard.remaining() <= left, "{:?} of {left:?}", guard.remaining());
}

/// It waits for so long that what was asked for events was asked long ago, as leases go.
#[tokio::test]
async fn a_lease_of_which_little_may_be_left_is_renewed_first() {
    let server = Server::start();
    let mut client = server.client();
    let lease = SHORT_LEASE / 6;
    let locks = Locks::options().lease(lease).connect_to(url(&server)).await.unwrap();
    client.say("RLOCK.ACQUIRE a other 600000");
    let waits = waits_for(locks.lock("a"));
    until("it has asked three times", || calls(&mut client, "rlock.events") >= 5).await;
    client.say("RLOCK.RELEASE a other");
    let guard = waits.await.unwrap().unwrap();
    assert!(guard.remaining() > lease / 2, "{:?}", guard.remaining());
    guard.release().await.unwrap();
    until_nothing_is_left(&mut client, "a").await;
}

/// Nobody renews it later, so it is handed over whole.
#[tokio::test]
async fn a_fixed_lease_is_whole_from_the_beginning() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let guard = waited_for(&mut client, locks.lock("a").fixed_lease(LEASE)).await;
    assert!(guard.remaining() > LEASE / 2, "{:?}", guard.remaining());
    assert_eq!(calls(&mut client, "rlock.renew"), 0);
    guard.release().await.unwrap();
    until_nothing_is_left(&mut client, "a").await;
}
