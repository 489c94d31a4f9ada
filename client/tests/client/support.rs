//! What the client's tests have in common.

use rlock_client::{Guard, Locks};
use rlock_testing::{Client, PATIENCE, Server};
use std::time::{Duration, Instant};

pub fn url(server: &Server) -> String {
    format!("redis+unix://{}", server.socket().display())
}

pub async fn locks_on(server: &Server) -> Locks {
    Locks::connect(url(server)).await.unwrap()
}

/// Looks again and again until the condition holds, while other tasks go on.
///
/// # Panics
/// If it does not in time.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Until the guard is told that it is lost, which has to be before that time. On a machine that stood still meanwhile both
/// have come, and being told counts.
pub async fn lost_before(guard: &Guard, end: tokio::time::Instant) {
    tokio::select! {
        biased;
        () = guard.lost() => assert!(guard.is_lost()),
        () = tokio::time::sleep_until(end) => panic!("the lease has ended, and nobody was told"),
    }
}

pub fn exists(client: &mut Client, key: &str) -> bool {
    client.run(&["EXISTS", key]).as_int() == 1
}

pub fn waiters(client: &mut Client) -> u64 {
    let info = client.say("INFO rlock");
    let line =
        info.as_text().lines().find_map(|line| line.strip_prefix("rlock_waiters:")).expect("the module's section");
    line.parse().expect("a number")
}

/// Until so many wait on the server.
pub async fn until_waiting(client: &mut Client, count: u64) {
    until(&format!("{count} wait"), || waiters(client) == count).await;
}

/// Until nobody holds the lock and nobody waits.
pub async fn until_nothing_is_left(client: &mut Client, key: &str) {
    until("nobody waits and nobody holds", || waiters(client) == 0 && !exists(client, key)).await;
}
