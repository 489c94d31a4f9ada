//! A client that finds its master by sentinels, through failovers of real processes.
//!
//! Replication is asynchronous, so what a master granted last may be forgotten. Locks that have reached the replica are
//! not: they are renewed and released at the new master, and nobody else gets them.

use crate::support::{all_fail_within, exists, locks_on, rival_of, until, until_waiting};
use rlock_client::{Access, ErrorKind, Locks, Options};
use rlock_testing::{Client, Server, Watched, wait_until};
use std::time::Duration;

/// Longer than any failover.
pub const LEASE: Duration = Duration::from_secs(15);

pub fn patient() -> Options {
    Locks::options().lease(LEASE).patience(LEASE)
}

pub async fn connect(options: Options, watched: &Watched) -> Locks {
    let sentinels = watched.sentinels.iter().map(|it| format!("redis://127.0.0.1:{}", it.port()));
    options.connect_to_sentinels(sentinels, Watched::NAME, Access::default()).await.unwrap()
}

#[tokio::test]
async fn a_lock_is_on_the_master_whichever_sentinel_is_there() {
    let mut watched = Watched::start(1);
    watched.sentinels[0].kill();
    watched.sentinels[1].freeze();
    let locks = connect(Locks::options(), &watched).await;
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let mut client = watched.servers[0].client();
    assert_eq!(client.hash("orders:42"), [(guard.holder().into_owned(), "1".to_owned())]);
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
}

#[tokio::test]
async fn a_sentinel_that_knows_of_no_master_is_not_the_last_to_be_asked() {
    let watched = Watched::start(0);
    watched.sentinels[0].client().say(&format!("SENTINEL REMOVE {}", Watched::NAME));
    let locks = connect(Locks::options(), &watched).await;
    locks.lock("orders:42").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows_is_told_of() {
    let watched = Watched::start(0);
    let sentinels = watched.sentinels.iter().map(|it| format!("redis://127.0.0.1:{}", it.port()));
    let unknown = Locks::options().connect_to_sentinels(sentinels, "other", Access::default()).await.unwrap_err();
    assert_eq!((unknown.kind(), unknown.code()), (ErrorKind::Refused, None), "{unknown:?}");
    assert!(unknown.reason().contains("a sentinel that knows no master other"), "{unknown}");
}

/// A failover takes as long as the sentinels say, and not as long as anybody is patient.
#[tokio::test]
async fn a_master_that_is_down_is_waited_for_as_long_as_the_caller_waits() {
    let mut watched = Watched::start(0);
    let locks = connect(Locks::options().patience(Duration::from_millis(100)), &watched).await;
    let port = watched.servers[0].port();
    watched.servers[0].kill();
    let waits = tokio::spawn({
        let lock = locks.lock("orders:42");
        async move { lock.acquire_timeout(Duration::from_secs(600)).await }
    });
    let is_down = || {
        let told = watched.sentinels[0].client().say(&format!("SENTINEL MASTER {}", Watched::NAME));
        told.words().chunks(2).any(|pair| pair[0] == "flags" && pair[1].contains("s_down"))
    };
    until("they know that it is down", is_down).await;
    let impatient = locks.lock("orders:43").acquire().await.unwrap_err();
    assert!(impatient.is_unavailable(), "{impatient}");
    let _master = Server::prepare().port(port).start();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn many_who_find_nobody_learn_it_together() {
    let watched = Watched::start(0);
    let limit = Duration::from_millis(500);
    let locks = connect(Locks::options().connect_timeout(limit).answer_timeout(limit), &watched).await;
    watched.servers.iter().chain(&watched.sentinels).for_each(Server::freeze);
    all_fail_within(limit * 8, &locks).await;
}

#[tokio::test]
async fn locks_outlive_a_master_that_is_replaced_by_hand() {
    let watched = Watched::start(1);
    let holder = connect(Locks::options().lease(LEASE / 3), &watched).await;
    let guard = holder.lock("orders:42").replicas(1, LEASE).acquire().await.unwrap();
    let on_all_sentinels = |command: &str| {
        for sentinel in &watched.sentinels {
            sentinel.client().say(command);
        }
    };
    on_all_sentinels(&format!("SENTINEL REMOVE {}", Watched::NAME));
    let [old, new] = &watched.servers[..] else { unreachable!("two servers") };
    let mut successor = new.client();
    successor.say("REPLICAOF NO ONE");
    // Its clients stay connected.
    old.begin_to_follow(new);
    on_all_sentinels(&format!("SENTINEL MONITOR {} 127.0.0.1 {} 2", Watched::NAME, new.port()));
    let expiry = successor.expiry("orders:42");
    until("the lock is renewed there", || successor.expiry("orders:42") > expiry).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert!(!exists(&mut successor, "orders:42"));
}

#[tokio::test]
async fn locks_outlive_a_killed_master() {
    a_failover(|watched| watched.servers[0].kill()).await;
}

#[tokio::test]
async fn locks_outlive_a_frozen_master() {
    a_failover(|watched| watched.servers[0].freeze()).await;
}

#[tokio::test]
async fn locks_outlive_a_master_that_is_made_a_replica() {
    a_failover(|watched| {
        let command = format!("SENTINEL FAILOVER {}", Watched::NAME);
        wait_until("the failover begins", || watched.sentinels[0].client().say(&command).words() == ["OK"]);
    })
    .await;
}

/// A client of the replica, once the sentinels have made it the master: they cut off who was connected to it before.
async fn successor_of(watched: &Watched) -> Client {
    until("the replica is the master", || watched.master_port() == watched.servers[1].port()).await;
    watched.servers[1].client()
}

/// Each client is on its own, so that none learns from what another one has met.
async fn a_failover(begin: fn(&mut Watched)) {
    let mut watched = Watched::start(1);
    let holder = connect(patient(), &watched).await;
    let guard = holder.lock("orders:42").replicas(1, LEASE).acquire().await.unwrap();
    let waiter = connect(patient(), &watched).await.lock("orders:42");
    let waits = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    until_waiting(&mut watched.servers[0].client(), 1).await;
    let rival = rival_of(&guard, connect(patient(), &watched).await.lock("orders:42"));

    begin(&mut watched);
    let mut successor = successor_of(&watched).await;
    until_waiting(&mut successor, 1).await;
    let expiry = successor.expiry("orders:42");
    until("the lock is renewed there", || successor.expiry("orders:42") > expiry).await;
    rival.has_failed().await;
    guard.release().await.unwrap();
    let second = waits.await.unwrap();
    assert_eq!(successor.hash("orders:42"), [(second.holder().into_owned(), "1".to_owned())]);
    second.release().await.unwrap();
    let other = holder.lock("orders:43").acquire().await.unwrap();
    assert!(exists(&mut successor, "orders:43"));
    other.release().await.unwrap();
}

/// The replica is cut off before the grant.
#[tokio::test]
async fn a_lock_that_the_new_master_never_had_is_reported_lost() {
    let mut watched = Watched::start(1);
    let locks = connect(patient(), &watched).await;
    watched.servers[1].freeze();
    watched.servers[0].client().say("CLIENT KILL TYPE replica");
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    watched.servers[0].kill();
    watched.servers[1].thaw();
    let mut successor = successor_of(&watched).await;
    assert!(!exists(&mut successor, "orders:42"));
    // The next renewal is told, within a third of the lease.
    tokio::time::timeout(guard.remaining() / 2, guard.lost()).await.unwrap();
    assert!(guard.release().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn a_grant_that_was_waited_for_is_confirmed_as_well() {
    let (master, replica) = (Server::start(), Server::start());
    replica.begin_to_follow(&master);
    let mut client = master.client();
    until("the replica follows", || client.say("INFO replication").as_text().contains("state=online")).await;
    let locks = locks_on(&master).await;
    let first = locks.lock("orders:42").replicas(1, Duration::from_secs(20)).acquire().await.unwrap();
    let waits = tokio::spawn({
        let lock = locks.lock("orders:42").replicas(1, Duration::from_millis(100));
        async move { lock.acquire().await }
    });
    until_waiting(&mut client, 1).await;
    // Whatever was written before the wait has arrived.
    assert_eq!(client.say("WAIT 1 20000").as_int(), 1);
    replica.freeze();
    first.release().await.unwrap();
    let refused = waits.await.unwrap().unwrap_err();
    assert!(refused.is_too_few_replicas(), "{refused}");
}
