//! One lock on several servers that know nothing of each other, held by whoever has it on most of them: so a minority of
//! the servers may fail, or forget it.
//!
//! - **Each server is asked once, for a part of the lease at most**: one that is dead must not use it up.
//! - **Who has it on too few servers gives it back**, and tries again after a random pause, since two may have got in
//!   each other's way. There is no queue that spans the servers, and their fencing tokens cannot be compared.
//! - **It is lost when fewer than a majority are held.** Each guard knows that of its own server.
//!
//! One server with replicas, and fencing tokens, is the better choice for most.
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
    /// Those that could be reached. The others count as servers that have not granted it.
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

    /// Asks all servers at once. `None`: too few have granted it, and what they granted is given back.
    pub async fn try_acquire(&self) -> Option<Held> {
        let asked = self.servers.iter().map(|locks| {
            let lock = locks.lock(&self.name);
            // One that is dropped here is given back if the server grants it all the same.
            async move { timeout(self.lease / 10, lock.try_acquire()).await }
        });
        let guards: Vec<_> = join_all(asked).await.into_iter().flatten().flatten().flatten().collect();
        let held = Held { guards, majority: self.majority };
        if !held.is_lost() {
            return Some(held);
        }
        // In the background, where a server does not answer.
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

    /// Whether it was held until now: a majority has given it back. The others do that in the background.
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
