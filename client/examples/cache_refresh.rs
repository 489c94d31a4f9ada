//! A cache that is read often and refreshed now and then: two prices that must always be of the same day.
//!
//! - **Readers share the lock** by `read_write().read()`: they do not wait for each other, only for who refreshes.
//! - **One refreshes** by `write()`, alone: no reader sees one price of today and one of yesterday.
//! - **After waiting it looks again.** All who found the cache stale asked for the write side; the first of them has
//!   refreshed it when the second gets its turn. Without the second look, each would ask the slow source once more.
//!
//! A reader cannot become the writer while it reads, so the read side is given back before the write side is asked for.
//!
//! ```sh
//! RLOCK_URL=redis://127.0.0.1:6379 cargo run -p rlock-client --example cache_refresh
//! ```

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands};
use rlock_client::{Locks, ReadWriteLock};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinSet;

const READERS: usize = 10;
const DAYS: u32 = 10;

/// While this key is there, the prices are good. It goes by itself after a minute, or when somebody removes it.
const FRESH: &str = "prices:fresh";
const MINUTE: u64 = 60;

/// Any error, on its way from one task to another.
type Failed = Box<dyn Error + Send + Sync>;

type Prices = (Option<String>, Option<String>);

#[derive(Clone)]
struct Cache {
    lock: ReadWriteLock,
    data: MultiplexedConnection,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let url = std::env::var("RLOCK_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let locks = Locks::connect(url.as_str()).await?;
    let mut cache = Cache { lock: locks.read_write("prices:lock"), data: connect(&url).await? };
    cache.data.del(&[FRESH, "source:asked"]).await?;
    cache.read().await?;

    let closed = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(read_until(closed.clone(), cache.clone()));
    }
    for _ in 1..DAYS {
        // All of them find out at once. When this read returns, one of them has refreshed the cache.
        cache.data.del(FRESH).await?;
        cache.read().await?;
    }
    closed.store(true, Relaxed);
    let mut mixed = 0;
    while let Some(reader) = readers.join_next().await {
        mixed += reader??;
    }
    let asked = cache.data.get("source:asked").await?.unwrap_or_default();
    println!("{DAYS} days, {READERS} readers: the source was asked {asked} times, {mixed} reads were of two days");
    Ok(())
}

/// Returns how many reads were of two days.
async fn read_until(closed: Arc<AtomicBool>, mut cache: Cache) -> Result<u32, Failed> {
    let mut mixed = 0;
    while !closed.load(Relaxed) {
        let (apples, pears) = cache.read().await?;
        mixed += u32::from(apples != pears);
    }
    Ok(mixed)
}

impl Cache {
    async fn read(&mut self) -> Result<Prices, Failed> {
        loop {
            let guard = self.lock.read().acquire().await?;
            // An error if the lock was lost: the prices may be of two days then.
            match guard.run(self.fresh_prices()).await?? {
                Some(prices) => return Ok(prices),
                None => self.refresh().await?,
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), Failed> {
        let guard = self.lock.write().acquire().await?;
        Ok(guard.run(self.copy_unless_fresh()).await??)
    }

    /// A reader takes its time between the two; nobody refreshes meanwhile.
    async fn fresh_prices(&mut self) -> Result<Option<Prices>, redis::RedisError> {
        if !self.data.exists(FRESH).await? {
            return Ok(None);
        }
        let apples = self.data.get("prices:apples").await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(Some((apples, self.data.get("prices:pears").await?)))
    }

    async fn copy_unless_fresh(&mut self) -> Result<(), redis::RedisError> {
        if self.data.exists(FRESH).await? { Ok(()) } else { self.copy_from_source().await }
    }

    /// The last to be written is that the prices are good: who stops on the way leaves the cache stale.
    async fn copy_from_source(&mut self) -> Result<(), redis::RedisError> {
        let day = self.data.incr("source:asked", 1).await?;
        self.data.set("prices:apples", day).await?;
        self.data.set("prices:pears", day).await?;
        self.data.set_ex(FRESH, "yes", MINUTE).await
    }
}

/// For the prices themselves. The library's limit for an answer is half a second, which is short for a busy machine.
async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
