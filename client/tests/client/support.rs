//! What the client's tests have in common.

use futures_util::FutureExt;
use rlock_client::{Error, Guard, Lock, Locks};
use rlock_testing::{Client, PATIENCE, Server};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::{JoinError, JoinHandle};

/// How late something may be, because other tests use the machine too.
pub const SLACK: Duration = Duration::from_secs(2);

pub fn url(server: &Server) -> String {
    format!("redis+unix://{}", server.socket().display())
}

pub async fn locks_on(server: &Server) -> Locks {
    Locks::connect(url(server)).await.unwrap()
}

/// Checks again and again until the condition holds, while other tasks go on.
///
/// # Panics
/// If the condition does not hold in time.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub fn exists(client: &mut Client, key: &str) -> bool {
    client.run(&["EXISTS", key]).as_int() == 1
}

/// How often the server has run this command, which is written in small letters.
pub fn calls(client: &mut Client, command: &str) -> i64 {
    let statistics = client.info("commandstats");
    let line = statistics.find(&format!("cmdstat_{command}")).unwrap_or("calls=0,");
    line.split(['=', ',']).nth(1).and_then(|calls| calls.parse().ok()).unwrap()
}

/// Waits for the lock in a new task.
pub fn waits_for(lock: Lock) -> JoinHandle<Result<Guard, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Waits until no release is under way.
///
/// # Panics
/// If that does not happen.
pub async fn settled(locks: &Locks) {
    tokio::time::timeout(PATIENCE, locks.settle()).await.expect("everything is released");
}

/// Waits until this many waiters are on the server.
pub async fn until_waiting(client: &mut Client, count: i64) {
    until(&format!("{count} wait"), || client.figure("waiters") == count).await;
}

/// Waits until the lock has neither a holder nor waiters.
pub async fn until_nothing_is_left(client: &mut Client, key: &str) {
    until("no waiter and no holder is left", || client.figure("waiters") == 0 && !exists(client, key)).await;
}

/// A client that keeps trying to get a lock that another client holds.
pub struct Rival(JoinHandle<()>);

/// Begins to try for the lock. No try may succeed before the guard is lost.
pub fn rival_of(guard: &Guard, lock: Lock) -> Rival {
    let lost = guard.lost();
    Rival(tokio::spawn(async move {
        tokio::pin!(lost);
        loop {
            tokio::select! {
                biased;
                () = &mut lost => return,
                tried = lock.try_acquire() => {
                    assert!(!matches!(tried, Ok(Some(_))) || (&mut lost).now_or_never().is_some(), "two have the lock");
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }))
}

impl Rival {
    /// Ends the tries. None has succeeded.
    pub async fn has_failed(self) {
        self.0.abort();
        let end = self.0.await;
        assert!(end.as_ref().is_err_and(JoinError::is_cancelled), "{end:?}");
    }
}

/// Runs a future as the simplest executor does.
pub fn block_on_by_hand<T>(work: impl Future<Output = T>) -> T {
    struct Unparks(thread::Thread);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}
