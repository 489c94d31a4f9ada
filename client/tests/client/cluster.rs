//! A client of a cluster: each lock at the owner of its slot, while slots move and masters die.

use crate::support::{exists, rival_of, until, until_waiting};
use rlock_client::{ErrorKind, Guard, Locks, Options};
use rlock_testing::network::{Order, Proxy, Sender};
use rlock_testing::{Client, Cluster, PATIENCE, Reply, Server, text};
use std::time::{Duration, Instant};

/// A renewal is due each second: no machine is so busy that it looks like a master that delays renewals.
const LEASE: Duration = Duration::from_secs(3);

/// Longer than any failover.
const LONG_LEASE: Duration = Duration::from_secs(15);

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

async fn connect(options: Options, cluster: &Cluster) -> Locks {
    options.connect_to_cluster(cluster.nodes().map(url)).await.unwrap()
}

/// When the lock's lease ends, on a node to which the slot is still on its way.
fn expiry_ahead(client: &mut Client, key: &str) -> i64 {
    client.say("ASKING");
    client.expiry(key)
}

/// Waits until the lease was renewed at the node that has the lock.
async fn until_renewed(guard: &Guard, mut expiry: impl FnMut() -> i64) {
    let mut before = 0;
    until("the lock is there", || {
        before = expiry();
        before > 0
    })
    .await;
    until("it is renewed", || expiry() > before).await;
    assert!(!guard.is_lost());
}

/// If one node is used as a single server, the error names the right node.
#[tokio::test]
async fn a_lone_node_sends_away() {
    let cluster = Cluster::start();
    let locks = Locks::connect(url(&cluster.masters[0])).await.unwrap();
    locks.lock(cluster.key_on(0)).acquire().await.unwrap().release().await.unwrap();
    let sent_away = locks.lock(cluster.key_on(1)).try_acquire().await.unwrap_err();
    assert_eq!((sent_away.kind(), sent_away.code()), (ErrorKind::Refused, Some("MOVED")), "{sent_away}");
    assert!(sent_away.text().unwrap().ends_with(&format!(":{}", cluster.masters[1].port())), "{sent_away}");
}

#[tokio::test]
async fn a_lock_is_renewed_and_released_where_its_slot_has_moved() {
    let cluster = Cluster::start();
    let locks = connect(Locks::options().lease(LEASE), &cluster).await;
    let keys = [cluster.key_on(0), cluster.key_on(1)];
    let kept = locks.lock(keys[0].as_str()).acquire().await.unwrap();
    let released = locks.lock(keys[1].as_str()).acquire().await.unwrap();
    let mut moves = [cluster.begin_to_move(&keys[0], 0, 2), cluster.begin_to_move(&keys[1], 1, 2)];
    for it in &mut moves {
        it.move_keys();
        it.finish();
    }
    released.release().await.unwrap();
    let mut there = cluster.masters[2].client();
    assert!(!exists(&mut there, &keys[1]));
    until_renewed(&kept, || there.expiry(&keys[0])).await;
    kept.release().await.unwrap();
    let again = locks.lock(keys[0].as_str()).acquire().await.unwrap();
    assert_eq!(there.hash(&keys[0]), [(again.holder().into_owned(), "1".to_owned())]);
}

/// `[first, last, [nil, port, …]]`, and `MOVED slot :port`: the host is that of the node that sent the reply.
#[tokio::test]
async fn an_empty_host_means_the_node_that_replied() {
    let cluster = Cluster::start();
    for master in &cluster.masters {
        master.client().say("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint");
    }
    let locks = connect(Locks::options().lease(LEASE), &cluster).await;
    let key = cluster.key_on(0);
    let guard = locks.lock(key.as_str()).acquire().await.unwrap();
    let mut moving = cluster.begin_to_move(&key, 0, 1);
    moving.move_keys();
    assert!(locks.lock(key.as_str()).try_acquire().await.unwrap().is_none());
    moving.finish();
    until_renewed(&guard, || moving.target.expiry(&key)).await;
    guard.release().await.unwrap();
}

/// With the rights that docs/running.md gives in a cluster, and without the right to ask for the cluster's state.
#[tokio::test]
async fn without_the_right_to_ask_for_the_state_of_the_cluster_its_slots_count() {
    let cluster = Cluster::start();
    for rights in ["+cluster|slots +cluster|info", "+cluster|slots"] {
        for master in &cluster.masters {
            let user = format!("ACL SETUSER app reset on >secret ~* +rlock.acquire +rlock.release {rights}");
            assert_eq!(master.client().say(&user), text("OK"));
        }
        let nodes = cluster.nodes().map(|node| format!("redis://app:secret@127.0.0.1:{}", node.port()));
        let locks = Locks::options().connect_to_cluster(nodes).await.unwrap();
        for master in 0..3 {
            locks.lock(cluster.key_on(master)).try_acquire().await.unwrap().unwrap().release().await.unwrap();
        }
    }
}

/// A node that the others have forgotten answers first, with what it knows from before.
#[tokio::test]
async fn the_newest_view_of_the_slots_counts_not_the_first() {
    let cluster = Cluster::start();
    let key = cluster.key_on(0);
    let mut clients: Vec<_> = cluster.masters.iter().map(Server::client).collect();
    let ids: Vec<_> = clients.iter_mut().map(|it| it.say("CLUSTER MYID").as_text().to_owned()).collect();
    let forgets = [(0, 1), (0, 2), (1, 0), (2, 0)];
    for (node, other) in forgets {
        assert_eq!(clients[node].say(&format!("CLUSTER FORGET {}", ids[other])), text("OK"));
    }
    let Reply::Int(slot) = clients[1].run(&["CLUSTER", "KEYSLOT", &key]) else { panic!("no slot") };
    assert_eq!(clients[1].say(&format!("CLUSTER ADDSLOTS {slot}")), text("OK"));
    clients[1].say("CLUSTER BUMPEPOCH");
    // The node with the newest view replies later.
    let far = Proxy::start().unwrap();
    far.obey(Order::Lead(cluster.masters[1].port()));
    far.obey(Order::Delay(Sender::Server, Duration::from_millis(20)));
    let seeds = [url(&cluster.masters[0]), format!("redis://127.0.0.1:{}", far.port)];
    // On a busy machine the second reply may be too late for one look-up.
    let patience = Instant::now() + PATIENCE;
    loop {
        let locks = Locks::options().connect_to_cluster(seeds.clone()).await.unwrap();
        let _guard = locks.lock(key.as_str()).acquire().await.unwrap();
        if exists(&mut clients[1], &key) {
            break;
        }
        assert!(Instant::now() < patience, "the slot's former owner is asked each time");
    }
}

#[tokio::test]
async fn a_lock_that_has_gone_ahead_of_its_slot_is_asked_for_there() {
    let cluster = Cluster::start();
    let locks = connect(Locks::options().lease(LEASE), &cluster).await;
    let key = cluster.key_on(0);
    let lock = locks.lock(key.as_str());
    let first = lock.acquire().await.unwrap();
    let mut moving = cluster.begin_to_move(&key, 0, 1);
    moving.move_keys();
    assert!(lock.try_acquire().await.unwrap().is_none());
    until_renewed(&first, || expiry_ahead(&mut moving.target, &key)).await;
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    until_waiting(&mut moving.target, 1).await;
    first.release().await.unwrap();
    let second = waits.await.unwrap();
    assert!(expiry_ahead(&mut moving.target, &key) > 0);
    assert!(!moving.source.keys().contains(&key));
    moving.finish();
    until_renewed(&second, || moving.target.expiry(&key)).await;
    second.release().await.unwrap();
    assert!(!exists(&mut moving.target, &key));
}

#[tokio::test]
async fn a_waiter_follows_its_slot() {
    let cluster = Cluster::start();
    let locks = connect(Locks::options(), &cluster).await;
    let key = cluster.key_on(0);
    let lock = locks.lock(key.as_str());
    let first = lock.acquire().await.unwrap();
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    let (mut here, mut there) = (cluster.masters[0].client(), cluster.masters[1].client());
    until_waiting(&mut here, 1).await;
    let mut moving = cluster.begin_to_move(&key, 0, 1);
    moving.move_keys();
    moving.finish();
    until_waiting(&mut there, 1).await;
    assert!(!waits.is_finished());
    assert_eq!(there.hash(&key), [(first.holder().into_owned(), "1".to_owned())]);
    first.release().await.unwrap();
    let second = waits.await.unwrap();
    assert_eq!(there.hash(&key), [(second.holder().into_owned(), "1".to_owned())]);
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_killed_master_delays_no_other() {
    one_master_falls(Server::kill).await;
}

#[tokio::test]
async fn a_frozen_master_delays_no_other() {
    one_master_falls(|it| it.freeze()).await;
}

async fn one_master_falls(fall: fn(&mut Server)) {
    let mut cluster = Cluster::start();
    let locks = connect(Locks::options().lease(LEASE), &cluster).await;
    let keys: Vec<_> = (0..3).map(|place| cluster.key_on(place)).collect();
    let mut guards = Vec::new();
    for key in &keys {
        guards.push(locks.lock(key.as_str()).acquire().await.unwrap());
    }
    let doomed = guards.remove(0);
    fall(&mut cluster.masters[0]);
    let fell_at = Instant::now();
    while !doomed.is_lost() {
        assert!(fell_at.elapsed() <= LEASE, "lost in time");
        for (guard, key) in guards.iter().zip(&keys[1..]) {
            // A renewal is due when two thirds are left. One that is an interval late finds one third.
            assert!(guard.remaining() > LEASE / 3, "{key}: {:?}", guard.remaining());
            let began = Instant::now();
            locks.lock(format!("{{{key}}}:other")).acquire().await.unwrap().release().await.unwrap();
            assert!(began.elapsed() < LEASE / 3, "{key}: {:?}", began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::timeout(LEASE, doomed.lost()).await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    // The dead master does not block later requests either.
    let locks = connect(Locks::options(), &cluster).await;
    locks.lock(keys[1].as_str()).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_confirmed_lock_outlives_its_killed_master() {
    a_master_fails_over(Server::kill, |_| ()).await;
}

#[tokio::test]
async fn a_confirmed_lock_outlives_its_frozen_master() {
    a_master_fails_over(|it| it.freeze(), |it| it.thaw()).await;
}

/// Each client is separate, so that none learns from another one.
async fn a_master_fails_over(fall: fn(&mut Server), rise: fn(&mut Server)) {
    let mut cluster = Cluster::start_with_replicas();
    let key = cluster.key_on(0);
    let patient = || Locks::options().lease(LONG_LEASE).patience(LONG_LEASE);
    let holder = connect(patient(), &cluster).await;
    let guard = holder.lock(key.as_str()).replicas(1, LONG_LEASE).acquire().await.unwrap();
    let waiter = connect(patient(), &cluster).await.lock(key.as_str());
    let waits = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    until_waiting(&mut cluster.masters[0].client(), 1).await;
    let rival = rival_of(&guard, connect(patient(), &cluster).await.lock(key.as_str()));

    fall(&mut cluster.masters[0]);
    let mut successor = cluster.replicas[0].client();
    until("the replica is the master", || successor.say("ROLE").words()[0] == "master").await;
    until_renewed(&guard, || successor.expiry(&key)).await;
    until_waiting(&mut successor, 1).await;
    rise(&mut cluster.masters[0]);
    rival.has_failed().await;
    guard.release().await.unwrap();
    let second = waits.await.unwrap();
    assert_eq!(successor.hash(&key), [(second.holder().into_owned(), "1".to_owned())]);
    second.release().await.unwrap();
}

/// Replicas of the lock's former node would confirm, although no renewal reaches them.
#[tokio::test]
async fn a_renewal_is_confirmed_where_its_slot_has_moved() {
    let cluster = Cluster::start_with_replicas();
    let key = cluster.key_on(0);
    let locks = connect(Locks::options().lease(LEASE), &cluster).await;
    let lock = locks.lock(key.as_str()).replicas(1, LONG_LEASE);
    let guard = lock.acquire().await.unwrap();
    let mut moving = cluster.begin_to_move(&key, 0, 1);
    moving.move_keys();
    moving.finish();
    // Not frozen before: Valkey moves no slot without replicas.
    cluster.replicas[1].freeze();
    let left = guard.remaining();
    let vouched_until = Instant::now() + left;
    let expiry = moving.target.expiry(&key);
    until("it is renewed there", || moving.target.expiry(&key) > expiry).await;
    let now = Instant::now();
    assert!(now + guard.remaining() <= vouched_until, "no replica has confirmed that");
    until("it is lost", || guard.is_lost()).await;
    cluster.replicas[1].thaw();
}
