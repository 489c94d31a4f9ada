//! A program without async code: calls that block, and leases that are renewed all the same.

use crate::support::{exists, url};
use rlock_client::Locks;
use rlock_testing::{Server, wait_until};
use std::thread;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(2);

#[test]
fn a_thread_takes_keeps_and_gives_back_a_lock() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::blocking_connect(url(&server)).unwrap();
    let lock = locks.lock("a").lease(LEASE);
    let guard = lock.blocking_acquire().unwrap();
    // Three leases from now, as the server sees it.
    let end = client.time_ms() + 4 * i64::try_from(LEASE.as_millis()).unwrap();
    wait_until("it is renewed again and again", || guard.is_lost() || client.expiry("a") >= end);
    assert!(!guard.is_lost(), "{:?}", guard.loss());
    guard.blocking_release().unwrap();
    assert!(!exists(&mut client, "a"));
}

#[test]
fn threads_wait_in_the_queue() {
    let server = Server::start();
    let mut client = server.client();
    let locks = Locks::blocking_connect(url(&server)).unwrap();
    let guard = locks.lock("a").blocking_acquire().unwrap();
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let lock = locks.lock("a");
            thread::spawn(move || lock.blocking_acquire().unwrap().blocking_release().unwrap())
        })
        .collect();
    wait_until("all wait", || client.figure("waiters") == 10);
    guard.blocking_release().unwrap();
    for thread in waits {
        thread.join().unwrap();
    }
    assert!(!exists(&mut client, "a"));
}

#[test]
fn errors_are_the_same() {
    let server = Server::start();
    let locks = Locks::blocking_connect(url(&server)).unwrap();
    server.client().say("SET a text");
    assert_eq!(locks.lock("a").blocking_acquire().unwrap_err().code(), Some("WRONGTYPE"));
    let guard = locks.lock("b").blocking_acquire().unwrap();
    server.client().say("DEL b");
    assert!(guard.blocking_release().unwrap_err().is_lost());
    assert!(Locks::blocking_connect("redis://127.0.0.1:1").unwrap_err().is_unavailable());
}
