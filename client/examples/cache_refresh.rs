//! A cache that is read often and refreshed now and then: two prices that must always be of the same day.
//!
//! - **Readers share the lock** with `read_write().read()`: they do not wait for each other, only for the writer.
//! - **One task refreshes** with `write()`, alone: no reader sees one price of today and one of yesterday.
//! - **After waiting it checks again.** All tasks that found the cache stale asked for the write side; when the second
//!   gets its turn, the first has refreshed the cache. Without the second check, each would ask the slow source again.
//!
//! A reader cannot become the writer while it reads, so it releases the read side before it asks for the write side.
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

/// While this key exists, the prices are good. It expires after a minute, or is deleted.
const FRESH: &str = "prices:fresh";
const MINUTE: u64 = 60;

/// Any error, passed between tasks.
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
        // All readers find the cache stale at once. When this read returns, one of them has refreshed it.
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

/// Returns how many reads had prices of two days.
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

    /// A reader takes its time between the two prices; no task refreshes in the meantime.
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

    /// The mark that the prices are good is written last: an interrupted refresh leaves the cache stale.
    async fn copy_from_source(&mut self) -> Result<(), redis::RedisError> {
        let day = self.data.incr("source:asked", 1).await?;
        self.data.set("prices:apples", day).await?;
        self.data.set("prices:pears", day).await?;
        self.data.set_ex(FRESH, "yes", MINUTE).await
    }
}

/// For the prices themselves. The library's limit for a reply is half a second, which is short for a busy machine.
async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
