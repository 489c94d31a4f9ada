//! Work that leads turn by turn. clients/conformance/tests/conformance/lead.rs has the promises of clients in all
//! languages.

use crate::support::{until, until_nothing_is_left, url};
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

/// The lock is lost in the first turn, and its work dropped. A later turn fails.
#[tokio::test]
async fn each_turn_has_a_token_of_its_own_until_one_fails() {
    let server = Server::start();
    let mut client = server.client();
    let locks = rlock_client::Locks::options().lease(Duration::from_secs(1)).connect_to(url(&server)).await.unwrap();
    let (lock, turns, last) = (locks.lock("a").fenced(), Cell::new(0), Cell::new(0));
    let breaks = async {
        until("it works", || turns.get() == 1).await;
        client.say("RLOCK.BREAK a");
        pending::<()>().await;
    };
    let led = lock.lead(|guard| {
        assert!(!guard.is_lost() && guard.token() > last.replace(guard.token()));
        turns.set(turns.get() + 1);
        let turn = turns.get();
        async move {
            match turn {
                1 => pending().await,
                5 => Err(Failed::Work(turn)),
                _ => Ok(()),
            }
        }
    });
    tokio::select! {
        led = led => assert!(matches!(led.unwrap_err(), Failed::Work(5))),
        () = breaks => {}
    }
    until_nothing_is_left(&mut server.client(), "a").await;
    let led = locks.lock("").lead(|_| async { Ok::<_, Failed>(()) }).await;
    assert!(matches!(led.unwrap_err(), Failed::Client(error) if error.kind() == ErrorKind::Configuration));
}
