//! A program without async code: calls that block, and leases that are renewed all the same.

use crate::support::{exists, url};
use rlock_client::{Locks, block_on};
use rlock_testing::{Server, wait_until};
use std::thread;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(2);

#[test]
fn a_thread_acquires_keeps_and_releases_a_lock_and_threads_wait_for_it() {
    let server = Server::start();
    let mut client = server.client();
    let locks = block_on(Locks::connect(url(&server))).unwrap();
    let guard = block_on(locks.lock("a").lease(LEASE).acquire()).unwrap();
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let lock = locks.lock("a");
            thread::spawn(move || block_on(block_on(lock.acquire()).unwrap().release()).unwrap())
        })
        .collect();
    wait_until("all wait", || client.figure("waiters") == 10);
    // Three leases from now, as the server sees it.
    let end = client.time_ms() + 4 * i64::try_from(LEASE.as_millis()).unwrap();
    wait_until("it is renewed again and again", || guard.is_lost() || client.expiry("a") >= end);
    assert!(!guard.is_lost(), "{:?}", guard.loss());
    block_on(guard.release()).unwrap();
    for thread in waits {
        thread.join().unwrap();
    }
    assert!(!exists(&mut client, "a"));
}
