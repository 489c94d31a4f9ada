//! A runtime with many requests gets its own connection, which it reads. Whatever happens to that runtime, no reply is
//! left unread.

use crate::support::{block_on_by_hand, until_nothing_is_left, url};
use futures_util::FutureExt;
use rlock_client::Locks;
use rlock_testing::{Client, Server, wait_until};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// More cycles than a runtime sends on the shared connection before it gets its own.
const OFTEN: usize = 40;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn connections(client: &mut Client) -> usize {
    client.say("CLIENT LIST").as_text().lines().count()
}

/// Long enough for a connection to be opened. On a slower machine the test shows nothing.
const A_MOMENT: Duration = Duration::from_millis(5);

async fn ask_often(locks: &Locks) {
    for number in 0..OFTEN {
        locks.lock(format!("often:{number}")).acquire().await.unwrap().release().await.unwrap();
    }
}

/// A client that was opened in another runtime, and a runtime that has sent many requests by it.
fn asked_often(server: &Server) -> (Locks, Runtime) {
    let locks = runtime().block_on(Locks::connect(url(server))).unwrap();
    let here = runtime();
    here.block_on(ask_often(&locks));
    (locks, here)
}

#[test]
fn a_runtime_that_asks_often_has_a_connection_until_it_ends() {
    let server = Server::start();
    let mut client = server.client();
    let with_none = connections(&mut client);
    let (locks, here) = asked_often(&server);
    assert_eq!(connections(&mut client), with_none + 2, "one for the background, and one of its own");
    here.block_on(ask_often(&locks));
    assert_eq!(connections(&mut client), with_none + 2);
    drop(here);
    wait_until("its own is closed", || connections(&mut client) == with_none + 1);
    drop(runtime().block_on(locks.lock("orders:42").acquire()).unwrap());
}

/// The runtime is gone in the middle of its request.
#[test]
fn a_grant_that_a_runtime_leaves_unread_is_released() {
    let server = Server::start();
    let mut client = server.client();
    let (locks, here) = asked_often(&server);
    let lock = locks.lock("orders:42");
    for _ in 0..20 {
        here.block_on(async { assert!(lock.acquire().now_or_never().is_none()) });
        runtime().block_on(until_nothing_is_left(&mut client, "orders:42"));
    }
}

/// The runtime does not read its replies, because another call blocks it.
#[test]
fn a_runtime_that_is_held_up_gets_its_answers_all_the_same() {
    let server = Server::start();
    let (locks, here) = asked_often(&server);
    here.block_on(async {
        let guard = block_on_by_hand(locks.lock("orders:42").acquire_timeout(Duration::from_secs(2))).unwrap();
        block_on_by_hand(guard.release()).unwrap();
    });
}

#[test]
fn a_break_while_a_runtime_rests_says_nothing_about_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let (locks, here) = asked_often(&server);
    for _ in 0..5 {
        client.say("CLIENT KILL TYPE normal SKIPME yes");
        let guard = here.block_on(locks.lock("orders:42").try_acquire()).unwrap().unwrap();
        here.block_on(guard.release()).unwrap();
        here.block_on(ask_often(&locks));
    }
}

/// A runtime without I/O is not notified of readable sockets. The client sends no request there before it knows that.
#[test]
fn a_runtime_for_nothing_that_is_read_has_none() {
    let server = Server::start();
    let mut client = server.client();
    let with_none = connections(&mut client);
    let locks = runtime().block_on(Locks::connect(url(&server))).unwrap();
    client.say("RLOCK.ACQUIRE taken another 600000");
    // Either an acquire or a release is the request that reaches the limit.
    for refused in [0, 1] {
        let bare = Builder::new_current_thread().build().unwrap();
        bare.block_on(async {
            for _ in 0..refused {
                assert!(locks.lock("taken").try_acquire().await.unwrap().is_none());
            }
            for _ in 0..OFTEN {
                let guard = locks.lock("often").acquire().await.unwrap();
                // No other task of this runtime runs meanwhile. A release that is sent there would end in doubt.
                std::thread::sleep(A_MOMENT);
                guard.release().await.unwrap();
            }
        });
    }
    wait_until("it has none", || connections(&mut client) == with_none + 1);
}
