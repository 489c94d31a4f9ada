//! Grants that replicas have to confirm.

use crate::support::{calls, exists, locks_on, until, until_nothing_is_left, until_waiting};
use futures_util::future::join_all;
use rlock_client::{ErrorKind, Loss};
use rlock_testing::Server;
use std::time::Duration;

/// A master with a replica that has the module as well.
fn pair() -> (Server, Server) {
    let (master, replica) = (Server::start(), Server::start());
    replica.follow(&master);
    (master, replica)
}

#[tokio::test]
async fn a_grant_that_enough_replicas_confirm() {
    let (master, replica) = pair();
    let locks = locks_on(&master).await;
    let lock = locks.lock("orders:42").fenced().replicas(1, Duration::from_secs(10));
    let first = lock.acquire().await.unwrap();
    let held = replica.client().hash("orders:42");
    assert_eq!(held, [(first.holder().into_owned(), "1".to_owned())], "the replica has it when acquire returns");
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until_waiting(&mut master.client(), 1).await;
    let before = first.token();
    first.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(replica.client().hash("orders:42"), [(second.holder().into_owned(), "1".to_owned())]);
    assert!(before < second.token(), "{} after {before}", second.token());
    second.release().await.unwrap();
}

#[tokio::test]
async fn too_few_replicas() {
    let (master, replica) = pair();
    let mut client = master.client();
    let locks = locks_on(&master).await;
    let lock = locks.lock("orders:42");
    let refused = lock.clone().replicas(2, Duration::from_millis(20)).acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooFewReplicas { wanted: 2, confirmed: 1 });
    assert!(refused.to_string().contains("1 of 2"), "{refused}");
    until_nothing_is_left(&mut client, "orders:42").await;
    replica.freeze();
    let refused = lock.replicas(1, Duration::from_millis(20)).try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooFewReplicas { wanted: 1, confirmed: 0 });
    until("it is released", || !exists(&mut client, "orders:42")).await;
    replica.thaw();
}

/// A replica that does not know a renewal may become the master, so only confirmed renewals count: for each guard, by the
/// number of replicas that it asked for.
#[tokio::test]
async fn a_guard_is_guaranteed_only_as_far_as_replicas_have_confirmed() {
    let (master, first) = pair();
    let second = Server::start();
    second.follow(&master);
    let locks = locks_on(&master).await;
    let lock = |name, wanted| locks.lock(name).lease(Duration::from_secs(1)).replicas(wanted, Duration::from_secs(10));
    let [one, both] = [lock("one", 1).acquire().await.unwrap(), lock("both", 2).acquire().await.unwrap()];
    second.freeze();
    until("it is lost", || both.is_lost()).await;
    let Some(Loss::NotRenewed(why)) = both.loss() else { panic!("{:?}", both.loss()) };
    assert_eq!(why.kind(), ErrorKind::TooFewReplicas { wanted: 2, confirmed: 1 });
    assert!(exists(&mut master.client(), "both"), "the master has renewed it all the same");
    let left = one.remaining();
    until("the other is renewed", || one.remaining() > left).await;
    second.thaw();
    one.release().await.unwrap();
    drop(first);
}

/// While a WAIT is pending, the server replies to nothing else on the same connection.
#[tokio::test]
async fn many_renewals_share_one_wait_and_no_request_queues_behind_it() {
    const LOCKS: i64 = 200;
    let (master, replica) = pair();
    let mut client = master.client();
    let locks = locks_on(&master).await;
    let lock = |number| locks.lock(format!("confirmed:{number}")).replicas(1, Duration::from_secs(10));
    let acquired = join_all((0..LOCKS).map(|number| async move { lock(number).acquire().await.unwrap() }));
    let guards = acquired.await;
    let (renewed, waited) = (calls(&mut client, "rlock.renew"), calls(&mut client, "wait"));
    // After a break, the client renews all of them at once.
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    until("all are renewed", || calls(&mut client, "rlock.renew") >= renewed + LOCKS).await;
    let waits = calls(&mut client, "wait") - waited;
    assert!(waits <= LOCKS / 10, "{waits} times");
    replica.freeze();
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    let mut waiting = || client.info("clients").number("blocked_clients");
    until("some are to be confirmed", || waiting() > 0).await;
    locks.lock("another").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert!(waiting() > 0, "they wait still");
    replica.thaw();
    for guard in guards {
        guard.release().await.unwrap();
    }
}
