//! A replaced master that does not know it. `SENTINEL FAILOVER` leaves it alive, with its queue, for seconds; a stalled
//! one wakes up as a master. Its replies to acquires, renewals and releases are true only for itself.
//!
//! Anything it did before a sentinel named another master may be forgotten, and no client can know that. After that a
//! client can know, and no two clients may hold one lock: neither current clients, nor later ones.

use crate::sentinel::{LEASE, connect, patient};
use crate::support::{until, waits_for};
use rlock_client::{Guard, Lock};
use rlock_testing::{PATIENCE, Server, Watched};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const PROGRAMS: usize = 3;
const TASKS: usize = 3;

/// Longer than a sentinel needs to see that the replica was promoted, and shorter than the old master lives on.
const SHORT_LEASE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn no_two_hold_a_lock_while_the_old_master_lives_on() {
    let watched = Watched::start(1);
    // This lets the old master live four times as long, and the other sentinels learn of the new one as late.
    for sentinel in &watched.sentinels {
        sentinel.client().say("SENTINEL DEBUG publish-period 1500");
    }
    let seen = Arc::<Mutex<Seen>>::default();
    let (mut programs, mut tasks) = (Vec::new(), Vec::new());
    let begin = || async {
        let locks = connect(patient().lease(SHORT_LEASE), &watched).await;
        let tasks: Vec<_> = (0..TASKS).map(|_| work(locks.lock("orders:42"), seen.clone())).collect();
        (locks, tasks)
    };
    for _ in 0..PROGRAMS {
        let (locks, its_tasks) = begin().await;
        programs.push(locks);
        tasks.extend(its_tasks);
    }
    let entries = || seen.lock().unwrap().entries;
    for (old, new) in [(0, 1), (1, 0)].map(|(old, new)| (&watched.servers[old], &watched.servers[new])) {
        let before = entries();
        until("the lock goes around", || entries() > before + TASKS).await;
        let command = format!("SENTINEL FAILOVER {}", Watched::NAME);
        until("the failover begins", || watched.sentinels[0].client().say(&command).words() == ["OK"]).await;
        until("another one is named", || watched.master_port() == new.port()).await;
        // Perhaps before the other sentinels know the new master.
        let (newcomer, its_tasks) = begin().await;
        let mut successor = new.client();
        until("the others wait there too", || successor.figure("waiters") >= (PROGRAMS * TASKS) as i64).await;
        assert_eq!(old.client().info("replication").find("role"), Some("master"), "it was not replaced yet");
        programs.push(newcomer);
        tasks.extend(its_tasks);
        until("the old one follows", || successor.info("replication").find("slave0").is_some_and(is_online)).await;
        // Otherwise a sentinel that still takes the old server for a master makes it follow again, whatever was decided
        // in the meantime.
        until("all sentinels know", || watched.sentinels.iter().all(sees_a_replica)).await;
    }
    tasks.iter().for_each(JoinHandle::abort);
    let overlaps = &seen.lock().unwrap().overlaps;
    assert!(overlaps.is_empty(), "{} times two had the lock: {overlaps:#?}", overlaps.len());
}

fn sees_a_replica(sentinel: &Server) -> bool {
    let replicas = sentinel.client().say(&format!("SENTINEL REPLICAS {}", Watched::NAME));
    replicas.as_list().iter().any(|replica| replica.words().chunks(2).any(|pair| pair == ["role-reported", "slave"]))
}

fn is_online(replica: &str) -> bool {
    replica.contains("state=online")
}

/// The guards that claim the lock now, and what was seen of them so far.
#[derive(Default)]
struct Seen {
    inside: Vec<Arc<Guard>>,
    overlaps: Vec<String>,
    entries: usize,
    losses: usize,
}

/// Lets a task acquire the lock again and again, for a moment each time.
fn work(lock: Lock, seen: Arc<Mutex<Seen>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            // Acquire may fail: a failover may lose a grant of a moment ago.
            let Ok(guard) = lock.acquire().await else { continue };
            let guard = Arc::new(guard);
            seen.lock().unwrap().enter(&guard);
            tokio::select! {
                () = guard.lost() => seen.lock().unwrap().losses += 1,
                () = sleep(Duration::from_millis(20)) => {}
            }
            seen.lock().unwrap().inside.retain(|it| !Arc::ptr_eq(it, &guard));
            let _ = Arc::into_inner(guard).unwrap().release().await;
        }
    })
}

impl Seen {
    fn enter(&mut self, guard: &Arc<Guard>) {
        let others = self.inside.iter().filter(|it| !it.is_lost() && !guard.is_lost());
        self.overlaps.extend(others.map(|it| format!("{} beside {}", guard.holder(), it.holder())));
        self.entries += 1;
        self.inside.push(guard.clone());
    }
}

/// The old master is stalled until another one has replaced it, with a request in its buffers.
#[tokio::test]
async fn a_grant_of_a_master_that_was_replaced_meanwhile_counts_for_nothing() {
    let watched = Watched::start(1);
    let [old, new] = &watched.servers[..] else { unreachable!("two servers") };
    // The lease is so long that a grant need not be renewed before the caller gets it.
    let locks = connect(patient().lease(LEASE * 40).answer_timeout(PATIENCE), &watched).await;
    let held = locks.lock("orders:41").replicas(1, LEASE).acquire().await.unwrap();
    // Read before the client can have renewed the lease on the new master.
    let expiry = new.client().expiry("orders:41");
    old.freeze();
    let asks = waits_for(locks.lock("orders:42"));
    until("the replica is the master", || watched.master_port() == new.port()).await;
    let mut successor = new.client();
    until("the client knows it", || successor.expiry("orders:41") > expiry).await;
    old.thaw();
    let guard = asks.await.unwrap().unwrap();
    assert_eq!(successor.hash("orders:42"), [(guard.holder().into_owned(), "1".to_owned())]);
    held.release().await.unwrap();
}

/// docs/running.md, *Upgrading*.
#[tokio::test]
async fn a_failover_by_sentinels_loses_nothing_while_writes_are_paused() {
    let watched = Watched::start(1);
    let [old, new] = &watched.servers[..] else { unreachable!("two servers") };
    let locks = connect(patient(), &watched).await;
    let seen = Arc::<Mutex<Seen>>::default();
    let tasks: Vec<_> = (0..TASKS).map(|_| work(locks.lock("orders:42"), seen.clone())).collect();
    let entries = || seen.lock().unwrap().entries;
    until("the lock goes around", || entries() > TASKS).await;
    old.client().say("CLIENT PAUSE 10000 WRITE");
    let command = format!("SENTINEL FAILOVER {}", Watched::NAME);
    until("the failover begins", || watched.sentinels[0].client().say(&command).words() == ["OK"]).await;
    until("the replica is the master", || watched.master_port() == new.port()).await;
    let before = entries();
    until("the lock goes around there", || entries() > before + TASKS).await;
    assert!(new.client().figure("grants") > 0);
    tasks.iter().for_each(JoinHandle::abort);
    assert_eq!(seen.lock().unwrap().losses, 0);
}
