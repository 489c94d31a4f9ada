//! One lock on several independent servers, held by the client that has it on a majority of them: so a minority of the
//! servers may fail, or forget it.
//!
//! - **Each server gets one try, for a small part of the lease**: a dead server must not use it up.
//! - **A client with too few servers releases them**, and tries again after a random pause, since two clients may have
//!   blocked each other. There is no queue across the servers, and their fencing tokens cannot be compared.
//! - **The lock is lost when fewer than a majority are held.** Each guard knows this for its own server.
//!
//! For most programs, one server with replicas and fencing tokens is the better choice.
//!
//! ```sh
//! RLOCK_URLS="redis://a redis://b redis://c" cargo run -p rlock-client --example redlock
//! ```

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use rlock_client::{Guard, Locks};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const LEASE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() {
    let urls = std::env::var("RLOCK_URLS").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let redlock = Redlock::connect("nightly", LEASE, urls.split_whitespace()).await;
    let held = redlock.acquire().await;
    tokio::select! {
        biased;
        () = held.lost() => println!("stopped: another client may have the lock"),
        () = sleep(Duration::from_millis(100)) => println!("done"), // stands for the work
    }
    println!("{}", if held.release().await { "it was held all the time" } else { "it was lost" });
}

pub struct Redlock {
    name: String,
    lease: Duration,
    /// The reachable servers. The others count as refusals.
    servers: Vec<Locks>,
    majority: usize,
}

impl Redlock {
    pub async fn connect<'a>(name: &str, lease: Duration, urls: impl IntoIterator<Item = &'a str>) -> Self {
        let opened = join_all(urls.into_iter().map(|url| Locks::options().lease(lease).connect_to(url))).await;
        let majority = opened.len() / 2 + 1;
        Self { name: name.to_owned(), lease, servers: opened.into_iter().flatten().collect(), majority }
    }

    pub async fn acquire(&self) -> Held {
        loop {
            if let Some(held) = self.try_acquire().await {
                return held;
            }
            sleep(Duration::from_millis(10 + RandomState::new().hash_one(()) % 128)).await;
        }
    }

    /// Asks all servers at once. `None`: too few have granted it, and those grants are released.
    pub async fn try_acquire(&self) -> Option<Held> {
        let asked = self.servers.iter().map(|locks| {
            let lock = locks.lock(&self.name);
            // If the timeout drops the call, the client releases the lock even if the server grants it later.
            async move { timeout(self.lease / 10, lock.try_acquire()).await }
        });
        let guards: Vec<_> = join_all(asked).await.into_iter().flatten().flatten().flatten().collect();
        let held = Held { guards, majority: self.majority };
        if !held.is_lost() {
            return Some(held);
        }
        // Continues in the background if a server does not reply.
        let _ = timeout(self.lease / 10, held.release()).await;
        None
    }
}

pub struct Held {
    guards: Vec<Guard>,
    majority: usize,
}

impl Held {
    pub fn is_lost(&self) -> bool {
        self.guards.iter().filter(|guard| !guard.is_lost()).count() < self.majority
    }

    /// Resolves when it is lost.
    pub async fn lost(&self) {
        let mut losses: FuturesUnordered<_> = self.guards.iter().map(Guard::lost).collect();
        while !self.is_lost() && losses.next().await.is_some() {}
    }

    /// Whether the lock was held until now: a majority has released it. The other releases continue in the background.
    pub async fn release(self) -> bool {
        let mut releases: FuturesUnordered<_> = self.guards.into_iter().map(Guard::release).collect();
        let mut released = 0;
        while let Some(answer) = releases.next().await {
            released += usize::from(answer.is_ok());
            if released == self.majority {
                return true;
            }
        }
        false
    }
}
