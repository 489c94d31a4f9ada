//! Several locks as one: all of them, or a majority.

use crate::support::{exists, locks_on, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{ErrorKind, Lock, Locks, Unfenced, multi};
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn all_or_none() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    drop(locks.lock("b").fenced().acquire().await.unwrap());
    locks.settle().await;
    let set = multi([locks.lock("c"), locks.read_write("a").write(), locks.lock("b")]).fenced();
    let guard = set.try_acquire().await.unwrap().unwrap();
    assert_eq!(guard.tokens().collect::<Vec<_>>(), [1, 1, 2], "in the order in which they were given");
    assert!(!guard.is_lost() && guard.remaining() > Duration::from_secs(29));
    assert!(["a", "b", "c"].iter().all(|key| exists(&mut client, key)));
    assert!(set.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(!["a", "b", "c"].iter().any(|key| exists(&mut client, key)));

    let other = locks.lock("c").acquire().await.unwrap();
    assert!(set.try_acquire().await.unwrap().is_none());
    let late = set.acquire_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
    for key in ["a", "b"] {
        until_nothing_is_left(&mut client, key).await;
    }
    other.release().await.unwrap();
}

/// The time limit is for all together.
#[tokio::test]
async fn a_set_is_waited_for_as_long_as_its_limit() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let others = [locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap()];
    let set = multi([locks.lock("a"), locks.lock("b")]);
    let began = Instant::now();
    assert!(set.acquire_timeout(Duration::from_millis(300)).await.unwrap_err().is_timeout());
    assert!((Duration::from_millis(300)..Duration::from_secs(10)).contains(&began.elapsed()), "{:?}", began.elapsed());
    let waits = tokio::spawn(async move { set.acquire().await });
    for other in others {
        until_waiting(&mut server.client(), 1).await;
        other.release().await.unwrap();
    }
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_named_twice_counts_once_and_a_writer_may_read() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let prices = locks.read_write("prices");
    let set = multi([locks.lock("a"), prices.read(), locks.lock("a"), prices.write()]);
    let guard = set.acquire().await.unwrap();
    assert!(format!("{guard:?}").contains(r#"["a", "prices", "prices"]"#), "{guard:?}");
    guard.release().await.unwrap();
    assert!(!exists(&mut client, "a") && !exists(&mut client, "prices"));
}

#[tokio::test]
async fn a_guard_of_several_is_lost_with_any_of_them() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::options().lease(Duration::from_secs(1)).connect_to(url(&server)).await.unwrap();
    let guard = multi([locks.lock("a"), locks.lock("b"), locks.lock("c")]).acquire().await.unwrap();
    client.say("DEL b");
    guard.lost().await;
    assert!(guard.is_lost() && guard.remaining().is_zero());
    assert!(guard.release().await.unwrap_err().is_lost());
    for key in ["a", "b", "c"] {
        until_nothing_is_left(&mut client, key).await;
    }
}

/// Sets that cross each other in every way, on two servers, from many tasks: all get what they want in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossing_sets_never_deadlock() {
    const TASKS: u64 = 40;
    const ROUNDS: u64 = 15;
    let servers = [Server::start(), Server::start()];
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(locks_on(server).await);
    }
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let clients = clients.clone();
        tasks.push(tokio::spawn(async move {
            // Any generator will do that gives each task sets of its own; the seed is the task.
            let mut state = task.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for _ in 0..ROUNDS {
                let set: Vec<Lock> = (0..4).map(|_| any_lock(&clients, next(&mut state))).collect();
                let guard = multi(set).acquire_timeout(Duration::from_secs(120)).await.unwrap();
                assert!(!guard.is_lost());
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        timeout(Duration::from_secs(120), task).await.expect("they wait for each other").unwrap();
    }
    for server in &servers {
        assert_eq!(server.client().say("DBSIZE").as_int(), 0);
    }
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn any_lock(clients: &[Locks], random: u64) -> Lock {
    let locks = &clients[(random % 2) as usize];
    let name = (random >> 8) % 4;
    match (random >> 16) % 3 {
        0 => locks.lock(format!("plain{name}")),
        1 => locks.read_write(format!("shared{name}")).read(),
        _ => locks.read_write(format!("shared{name}")).write(),
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let empty = multi::<Unfenced>([]).acquire().await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Configuration, "{empty}");
    let mixed = multi([locks.lock("a"), locks.read_write("a").read()]).acquire().await.unwrap_err();
    assert!(mixed.is_wrong_kind(), "{mixed}");
    until_nothing_is_left(&mut client, "a").await;
    let _taken = locks.lock("b").acquire().await.unwrap();
    let waits = tokio::spawn(async move { multi([locks.lock("a"), locks.lock("b")]).acquire().await });
    until_waiting(&mut client, 1).await;
    waits.abort();
    until_nothing_is_left(&mut client, "a").await;
}

/// That one of all was lost counts, whatever became of the others, and whichever is heard of first.
#[tokio::test]
async fn a_set_of_which_one_is_lost_is_lost() {
    for gone in 0..2 {
        let mut servers = [Server::start(), Server::start()];
        let options = Locks::options().patience(Duration::from_millis(100));
        let first = options.clone().connect_to(url(&servers[0])).await.unwrap();
        let second = options.connect_to(url(&servers[1])).await.unwrap();
        let guard = multi([first.lock("a"), second.lock("b")]).acquire().await.unwrap();
        servers[gone].kill();
        servers[1 - gone].client().say("FLUSHALL");
        servers[1 - gone].freeze();
        let release = tokio::spawn(guard.release());
        let began = Instant::now();
        until("the other has been given up", || began.elapsed() > Duration::from_millis(500)).await;
        servers[1 - gone].thaw();
        assert!(release.await.unwrap().unwrap_err().is_lost());
    }
}
