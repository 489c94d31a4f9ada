//! Work that leads turn by turn. What the clients of all languages promise of that is in
//! clients/conformance/tests/conformance/lead.rs.

use crate::support::{locks_on, settled, until, until_nothing_is_left, waits_for};
use rlock_client::{Error, ErrorKind};
use rlock_testing::Server;
use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

/// An error of the work's own, or the client's.
#[derive(Debug)]
enum Failed {
    Work(u32),
    Client(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

#[tokio::test]
async fn each_turn_has_a_token_of_its_own_until_one_fails() {
    let server = Server::start();
    let mut client = server.client();
    let (turns, last) = (Cell::new(0), Cell::new(0));
    let lock = locks_on(&server).await.lock("a").fenced();
    let led = lock.lead(|guard| {
        assert!(!guard.is_lost() && guard.token() > last.replace(guard.token()));
        turns.set(turns.get() + 1);
        let turn = turns.get();
        async move { if turn < 5 { Ok(()) } else { Err(Failed::Work(turn)) } }
    });
    assert!(matches!(led.await.unwrap_err(), Failed::Work(5)));
    until_nothing_is_left(&mut client, "a").await;
}

/// The lock is lost in the first turn, and its work dropped.
#[tokio::test]
async fn a_loss_ends_the_turn_and_not_the_lead() {
    let server = Server::start();
    let mut client = server.client();
    let locks = rlock_client::Locks::options().lease(Duration::from_secs(1)).connect_to(crate::support::url(&server));
    let lock = locks.await.unwrap().lock("a");
    let turns = Cell::new(0);
    let breaks = async {
        until("it works", || turns.get() == 1).await;
        client.say("RLOCK.BREAK a");
        pending::<()>().await;
    };
    let led = lock.lead(|_| {
        turns.set(turns.get() + 1);
        let turn = turns.get();
        async move { if turn == 1 { pending().await } else { Err(Failed::Work(turn)) } }
    });
    tokio::select! {
        led = led => assert!(matches!(led.unwrap_err(), Failed::Work(2))),
        () = breaks => {}
    }
}

#[tokio::test]
async fn what_stays_wrong_ends_it() {
    let server = Server::start();
    server.client().say("SET a data");
    let locks = locks_on(&server).await;
    for (name, kind) in [("", ErrorKind::Configuration), ("a", ErrorKind::Refused)] {
        let led = locks.lock(name).lead(|_| async { Ok::<_, Failed>(()) }).await;
        assert!(matches!(led.unwrap_err(), Failed::Client(error) if error.kind() == kind), "{kind:?}");
    }
}

#[tokio::test]
async fn dropped_it_releases_the_lock_or_leaves_the_queue() {
    let server = Server::start();
    let mut client = server.client();
    let locks = locks_on(&server).await;
    let lead = |lock: rlock_client::Lock| {
        tokio::spawn(async move { lock.lead(|_| pending::<Result<(), Failed>>()).await.map(drop).map_err(drop) })
    };
    let works = lead(locks.lock("a"));
    until("it works", || crate::support::exists(&mut client, "a")).await;
    let waits = lead(locks.lock("a"));
    crate::support::until_waiting(&mut client, 1).await;
    waits.abort();
    crate::support::until_waiting(&mut client, 0).await;
    let next = waits_for(locks.lock("a"));
    crate::support::until_waiting(&mut client, 1).await;
    works.abort();
    next.await.unwrap().unwrap().release().await.unwrap();
    settled(&locks).await;
    until_nothing_is_left(&mut client, "a").await;
}
