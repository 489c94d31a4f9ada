//! A client that finds its master by sentinels, through failovers of real processes.
//!
//! Replication is asynchronous, so a master's last grants may be forgotten. Locks that have reached the replica are
//! not: they are renewed and released at the new master, and no other client gets them. For a master that dies see
//! clients/conformance/tests/conformance/failover.rs.

use crate::support::{exists, rival_of, until, until_waiting, waits_for};
use futures_util::future::join_all;
use rlock_client::{Access, Error, ErrorKind, Locks, Options};
use rlock_testing::{Server, Watched, text};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::timeout;

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
async fn a_master_that_no_sentinel_knows_is_an_error() {
    let watched = Watched::start(0);
    let sentinels = watched.sentinels.iter().map(|it| format!("redis://127.0.0.1:{}", it.port()));
    let unknown = Locks::options().connect_to_sentinels(sentinels, "other", Access::default()).await.unwrap_err();
    assert_eq!((unknown.kind(), unknown.code()), (ErrorKind::Refused, None), "{unknown:?}");
    assert!(unknown.reason().contains("a sentinel that knows no master other"), "{unknown}");
}

/// The sentinels determine how long a failover takes, not the client's patience.
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
        let master = watched.sentinels[0].client().say(&format!("SENTINEL MASTER {}", Watched::NAME));
        master.words().chunks(2).any(|pair| pair[0] == "flags" && pair[1].contains("s_down"))
    };
    until("they know that it is down", is_down).await;
    let impatient = locks.lock("orders:43").acquire().await.unwrap_err();
    assert!(impatient.is_unavailable(), "{impatient}");
    let _master = Server::prepare().port(port).start();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn while_the_master_is_down_the_client_listens_for_the_next_one() {
    let mut watched = Watched::start(0);
    let locks = connect(Locks::options().name("listener").patience(Duration::from_millis(100)), &watched).await;
    watched.servers[0].kill();
    let is_down = |sentinel: &Server| master_of(sentinel)["flags"].contains("s_down");
    until("they know that it is down", || watched.sentinels.iter().all(is_down)).await;
    let listens = |sentinel: &Server| {
        let clients = sentinel.client().say("CLIENT LIST");
        clients.as_text().lines().any(|it| it.contains("listener") && it.contains("sub=2"))
    };
    assert!(locks.lock("orders:42").acquire().await.unwrap_err().is_unavailable());
    assert!(watched.sentinels.iter().all(listens));
}

/// A sentinel lists the former master until all replicas follow the promoted one, for as long as its failover may take.
#[tokio::test]
async fn a_promoted_replica_is_the_master_before_the_others_follow_it() {
    let servers: Vec<_> = (0..3).map(|_| Server::start()).collect();
    let [old, promoted, stubborn] = &servers[..] else { unreachable!("three servers") };
    [promoted, stubborn].into_iter().for_each(|it| it.follow(old));
    for command in ["CONFIG SET replica-priority 0", "ACL SETUSER default -slaveof -replicaof"] {
        assert_eq!(stubborn.client().say(command), text("OK"));
    }
    let lone = format!(
        "sentinel monitor {0} 127.0.0.1 {1} 1\nsentinel down-after-milliseconds {0} 1000\n\
         sentinel failover-timeout {0} 600000\n",
        Watched::NAME,
        old.port()
    );
    let sentinel = Server::prepare().sentinel(&lone).start();
    until("it knows both replicas", || master_of(&sentinel)["num-slaves"] == "2").await;
    let url = format!("redis://127.0.0.1:{}", sentinel.port());
    let locks = patient().connect_to_sentinels([url], Watched::NAME, Access::default()).await.unwrap();
    old.freeze();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert!(exists(&mut promoted.client(), "orders:42"));
    assert_eq!(master_of(&sentinel)["port"], old.port().to_string());
    guard.release().await.unwrap();
}

/// What a sentinel lists of the master.
fn master_of(sentinel: &Server) -> HashMap<String, String> {
    let listed = sentinel.client().say(&format!("SENTINEL MASTER {}", Watched::NAME));
    listed.words().chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

#[tokio::test]
async fn many_calls_fail_together_if_no_server_answers() {
    let watched = Watched::start(0);
    let limit = Duration::from_millis(500);
    let locks = connect(Locks::options().connect_timeout(limit).answer_timeout(limit), &watched).await;
    watched.servers.iter().chain(&watched.sentinels).for_each(Server::freeze);
    // No call waits for another one to fail.
    for round in 1..=2 {
        let tries = (0..20).map(|number| locks.lock(format!("orders:{number}")));
        let all = join_all(tries.map(|lock| async move { lock.try_acquire().await }));
        let answers = timeout(limit * 8, all).await.unwrap_or_else(|_| panic!("round {round} takes too long"));
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(Error::is_unavailable)), "{answers:?}");
    }
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

/// The old master is stalled. Each client is separate, so that none learns from another one.
#[tokio::test]
async fn locks_outlive_a_frozen_master() {
    let watched = Watched::start(1);
    let [old, new] = &watched.servers[..] else { unreachable!("two servers") };
    let holder = connect(patient(), &watched).await;
    let guard = holder.lock("orders:42").replicas(1, LEASE).acquire().await.unwrap();
    let waits = waits_for(connect(patient(), &watched).await.lock("orders:42"));
    until_waiting(&mut old.client(), 1).await;
    let rival = rival_of(&guard, connect(patient(), &watched).await.lock("orders:42"));
    old.freeze();
    // A frozen master closes no connection: the clients learn of the new one from the sentinels.
    until("the replica is the master", || watched.master_port() == new.port()).await;
    let mut successor = new.client();
    until_waiting(&mut successor, 1).await;
    let expiry = successor.expiry("orders:42");
    until("the lock is renewed there", || successor.expiry("orders:42") > expiry).await;
    rival.has_failed().await;
    guard.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(successor.hash("orders:42"), [(second.holder().into_owned(), "1".to_owned())]);
    second.release().await.unwrap();
    let other = holder.lock("orders:43").acquire().await.unwrap();
    assert!(exists(&mut successor, "orders:43"));
    other.release().await.unwrap();
}
