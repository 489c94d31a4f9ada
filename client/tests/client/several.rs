//! Several locks as one: all of them, or a majority.

use crate::support::{exists, locks_on, until, until_nothing_is_left, until_waiting, url};
use rlock_client::{ErrorKind, Lock, Locks, Unfenced, multi, redlock};
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

async fn three() -> ([Server; 3], Vec<Locks>) {
    let servers = [Server::start(), Server::start(), Server::start()];
    let mut clients = Vec::new();
    for server in &servers {
        let options = Locks::options().lease(Duration::from_secs(2)).answer_timeout(Duration::from_millis(500));
        clients.push(options.connect_to(url(server)).await.unwrap());
    }
    (servers, clients)
}

fn most_of(clients: &[Locks]) -> rlock_client::Redlock {
    redlock(clients.iter().map(|locks| locks.lock("nightly")))
}

#[tokio::test]
async fn a_majority_holds_the_lock() {
    let (servers, clients) = three().await;
    let most = most_of(&clients);
    let guard = most.acquire().await.unwrap();
    for server in &servers {
        assert_eq!(server.client().hash("nightly"), [(guard.holder().into_owned(), "1".to_owned())]);
    }
    assert!(most.try_acquire().await.unwrap().is_none());
    assert!(most.acquire_timeout(Duration::from_millis(100)).await.unwrap_err().is_timeout());
    // What can be vouched for: the lease, less what it took, less what clocks may differ by.
    assert!(guard.remaining() < Duration::from_millis(1_978) && !guard.is_lost());
    guard.release().await.unwrap();
    for server in &servers {
        until_nothing_is_left(&mut server.client(), "nightly").await;
    }
    most.acquire().await.unwrap().release().await.unwrap();
}

/// Dead or silent, one of three does not matter: not for acquiring, not for renewing, not for releasing.
#[tokio::test]
async fn one_of_three_may_be_dead() {
    for silent in [false, true] {
        let ([a, b, c], clients) = three().await;
        let dead = if silent {
            c.freeze();
            Some(c)
        } else {
            drop(c);
            None
        };
        let most = most_of(&clients);
        let guard = most.acquire().await.unwrap();
        let mut client = a.client();
        let began = client.expiry("nightly");
        until("it was renewed for longer than a lease", || client.expiry("nightly") > began + 2_000).await;
        assert!(!guard.is_lost());
        assert!(most.try_acquire().await.unwrap().is_none());
        let began = Instant::now();
        guard.release().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "the dead one is not waited for");
        for server in [&a, &b] {
            until_nothing_is_left(&mut server.client(), "nightly").await;
        }
        if let Some(c) = dead {
            c.thaw();
            until_nothing_is_left(&mut c.client(), "nightly").await;
        }
    }
}

#[tokio::test]
async fn with_two_of_three_dead_it_is_refused_in_time() {
    let ([a, b, c], clients) = three().await;
    b.freeze();
    drop(c);
    let limit = Duration::from_secs(1);
    let began = Instant::now();
    let refused = most_of(&clients).acquire_timeout(limit).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    assert!(began.elapsed() < limit + Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(most_of(&clients).try_acquire().await.unwrap_err().is_unavailable());
    until_nothing_is_left(&mut a.client(), "nightly").await;
    b.thaw();
    until_nothing_is_left(&mut b.client(), "nightly").await;
}

#[tokio::test]
async fn a_majority_is_lost_when_too_few_are_left() {
    let ([a, b, c], clients) = three().await;
    let guard = most_of(&clients).acquire().await.unwrap();
    drop(c);
    let mut client = a.client();
    let began = client.expiry("nightly");
    until("it is renewed by two", || client.expiry("nightly") > began + 2_000).await;
    assert!(!guard.is_lost());
    drop(b);
    guard.lost().await;
    assert!(guard.is_lost());
    assert!(guard.release().await.is_err());
    until_nothing_is_left(&mut client, "nightly").await;
}

/// Clients that get in each other's way do not do so for ever, and are never two at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_want_the_majority() {
    let (_servers, clients) = three().await;
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (most, inside) = (most_of(&clients), inside.clone());
            tokio::spawn(async move {
                for _ in 0..3 {
                    let guard = most.acquire_timeout(Duration::from_secs(60)).await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    for refused in [
        multi::<Unfenced>([]).acquire().await.unwrap_err(),
        redlock([]).try_acquire().await.unwrap_err(),
        redlock([locks.lock("a"), locks.lock("a"), locks.lock("a")]).acquire().await.unwrap_err(),
        redlock([locks.lock("a").owner("me")]).acquire().await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Configuration, "{refused}");
    }
    let mixed = multi([locks.lock("a"), locks.read_write("a").read()]).acquire().await.unwrap_err();
    assert!(mixed.is_wrong_kind(), "{mixed}");
    until_nothing_is_left(&mut client, "a").await;
    let _taken = locks.lock("b").acquire().await.unwrap();
    let waits = tokio::spawn(async move { multi([locks.lock("a"), locks.lock("b")]).acquire().await });
    until_waiting(&mut client, 1).await;
    waits.abort();
    until_nothing_is_left(&mut client, "a").await;
}

/// One server of three has forgotten it and one is gone: the lock was held all the time, and is not given back by most.
#[tokio::test]
async fn a_majority_of_which_too_few_are_left_to_release_it_is_lost_only_if_most_have_lost_it() {
    let mut servers = [Server::start(), Server::start(), Server::start()];
    let options = Locks::options().patience(Duration::from_millis(100));
    let mut locks = Vec::new();
    for server in &servers {
        locks.push(options.clone().connect_to(url(server)).await.unwrap());
    }
    let lock = redlock(locks.iter().map(|locks| locks.lock("nightly")));
    let guard = lock.acquire().await.unwrap();
    for server in &servers[..2] {
        assert_eq!(server.client().say("DEL nightly").as_int(), 1);
    }
    assert!(guard.release().await.unwrap_err().is_lost());
    let guard = lock.acquire().await.unwrap();
    assert_eq!(servers[0].client().say("DEL nightly").as_int(), 1);
    servers[2].kill();
    assert!(guard.release().await.unwrap_err().is_unavailable());
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
