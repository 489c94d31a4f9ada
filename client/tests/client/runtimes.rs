//! A client belongs to no runtime: it is opened in one, used from others, and keeps its locks without any, or if a
//! runtime's threads are all blocked.

use crate::support::{block_on_by_hand, exists, locks_on, settled, url, waits_for};
use futures_util::future::join_all;
use rlock_client::{Guard, Locks};
use rlock_testing::{Client, Server, wait_until};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const LEASE: Duration = Duration::from_secs(2);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A client that was opened in a runtime that has ended.
fn opened_elsewhere(server: &Server) -> Locks {
    runtime().block_on(Locks::options().lease(LEASE).connect_to(url(server))).unwrap()
}

/// Waits until the server has kept the lock for three leases, or a guard is lost. Meanwhile this thread is in no runtime.
fn until_kept_for_three_leases(server: &Server, key: &str, guards: &[Guard]) {
    let mut client = server.client();
    let end = client.time_ms() + i64::try_from(LEASE.as_millis()).unwrap() * 4;
    wait_until("it is renewed again and again", || {
        guards.iter().any(Guard::is_lost) || client.expiry(key) >= end || !exists(&mut client, key)
    });
    let lost = guards.iter().filter(|guard| guard.is_lost()).count();
    assert_eq!(lost, 0, "of {} guards so many are lost, the first by {:?}", guards.len(), guards[0].loss());
    assert!(exists(&mut client, key));
}

/// Uses a static client like a program that calls `block_on` in several places, or a program of tests.
#[test]
fn a_static_client_acquires_keeps_and_releases_whatever_has_become_of_its_runtime() {
    static LOCKS: OnceLock<Locks> = OnceLock::new();
    let server = Server::start();
    let locks = LOCKS.get_or_init(|| opened_elsewhere(&server));
    let guard = [runtime().block_on(locks.lock("a").acquire()).unwrap()];
    until_kept_for_three_leases(&server, "a", &guard);
    let waits = thread::spawn(|| runtime().block_on(locks.lock("a").acquire()).map(drop));
    wait_until("it waits", || server.client().figure("waiters") == 1);
    let [guard] = guard;
    runtime().block_on(guard.release()).unwrap();
    waits.join().unwrap().unwrap();
    runtime().block_on(settled(locks));
    assert!(!exists(&mut server.client(), "a"));
}

#[test]
fn a_guard_that_is_dropped_without_a_runtime_is_released() {
    let server = Server::start();
    let mut client = server.client();
    let locks = opened_elsewhere(&server);
    let guard = runtime().block_on(locks.lock("a").fixed_lease(Duration::from_secs(600)).acquire()).unwrap();
    drop(guard);
    wait_until("it is released", || !exists(&mut client, "a"));
    runtime().block_on(settled(&locks));
}

#[test]
fn a_wait_leaves_the_queue_with_its_runtime() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE a other 600000");
    let locks = opened_elsewhere(&server);
    let waits_in = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    waits_in.block_on(async { drop(waits_for(locks.lock("a"))) });
    wait_until("it waits", || client.figure("waiters") == 1);
    drop(waits_in);
    wait_until("no waiters are left", || client.figure("waiters") == 0);
    client.say("RLOCK.RELEASE a other");
    assert!(!exists(&mut client, "a"));
}

/// Each thread has its own runtime, and all share one client.
#[test]
fn threads_take_turns() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 25;
    let server = Server::start();
    let locks = opened_elsewhere(&server);
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    // This runtime ends with the round.
                    let runtime = runtime();
                    let guard = runtime.block_on(locks.lock("a").acquire()).unwrap();
                    assert!(!inside.swap(true, SeqCst), "two have the lock");
                    assert!(inside.swap(false, SeqCst));
                    runtime.block_on(guard.release()).unwrap();
                }
            });
        }
    });
    runtime().block_on(settled(&locks));
    assert!(!exists(&mut server.client(), "a"));
}

/// Tasks that block for a while each time, more of them than workers: all other tasks have to wait for seconds.
#[test]
fn workers_that_are_blocked_cost_no_guard() {
    const GUARDS: usize = 100;
    const BLOCKING: usize = 12;
    let server = Server::start();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let locks = runtime.block_on(Locks::options().lease(LEASE).connect_to(url(&server))).unwrap();
    let mut guards = Vec::new();
    for number in 0..GUARDS {
        guards.push(runtime.block_on(locks.lock(format!("a{number}")).acquire()).unwrap());
    }
    let tasks: Vec<_> = (0..BLOCKING)
        .map(|_| {
            runtime.spawn(async {
                loop {
                    thread::sleep(Duration::from_millis(150));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    until_kept_for_three_leases(&server, "a0", &guards);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    for guard in guards {
        runtime.block_on(guard.release()).unwrap();
    }
    assert!(server.client().keys().is_empty());
}

/// A task that needs a connection while it is being opened waits for it.
#[test]
fn requests_that_come_together_open_one_connection() {
    let server = Server::start();
    let mut client = server.client();
    let locks = opened_elsewhere(&server);
    let connections = |client: &mut Client| client.info("stats").number("total_connections_received");
    for round in 1..=5 {
        client.say("CLIENT KILL TYPE normal SKIPME yes");
        let before = connections(&mut client);
        let tries = (0..50).map(|number| locks.lock(format!("{round}:{number}")));
        let tries = join_all(tries.map(|lock| async move { lock.try_acquire().await }));
        let guards: Result<Vec<_>, _> = runtime().block_on(tries).into_iter().collect();
        assert!(guards.unwrap().iter().all(Option::is_some));
        runtime().block_on(settled(&locks));
        assert_eq!(connections(&mut client), before + 1, "round {round}");
    }
}

/// Any executor will do, even a runtime without timers.
#[test]
fn what_needs_a_timer_needs_no_runtime_for_it() {
    let server = Server::start();
    let locks = opened_elsewhere(&server);
    block_on_by_hand(needs_timers(&server, &locks));
    Builder::new_current_thread().build().unwrap().block_on(needs_timers(&server, &locks));
    wait_until("nothing is left", || server.client().keys().is_empty());
}

async fn needs_timers(server: &Server, locks: &Locks) {
    let opened_here = Locks::connect(url(server)).await.unwrap();
    let all = opened_here.all(["one", "other"]);
    let guard = all.acquire_timeout(LEASE).await.unwrap();
    assert!(all.acquire_timeout(LEASE / 10).await.is_err());
    guard.run(async {}).await.unwrap();
    let fixed = locks.lock("a").fixed_lease(LEASE / 10).acquire().await.unwrap();
    fixed.lost().await;
    let guard = locks.lock("b").acquire().await.unwrap();
    assert!(locks.lock("b").acquire_timeout(LEASE / 10).await.unwrap_err().is_timeout());
    guard.run(async {}).await.unwrap();
    locks.settle().await;
}

#[cfg(feature = "commands")]
#[test]
fn commands_need_no_runtime() {
    let server = Server::start();
    let locks = opened_elsewhere(&server);
    block_on_by_hand(async {
        assert!(locks.command("a", &["RLOCK.INSPECT", "a"]).await.is_ok());
        let masters = locks.masters().await.unwrap();
        assert!(masters[0].command(&["RLOCK.QUEUES"]).await.is_ok());
    });
}

/// A test with a paused or moved clock: leases use the real one, like the server.
#[tokio::test(start_paused = true)]
async fn a_clock_that_a_test_moves_ends_no_lease() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let guard = locks.lock("a").acquire().await.unwrap();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert!(!guard.is_lost(), "{:?}", guard.loss());
    guard.release().await.unwrap();
}
