//! A job that cron or a timer starts at the same time on many hosts. One of them does it.
//!
//! - **The host that gets the lock does it; the others leave** (`try_acquire`: there is nothing to wait for).
//! - **A late host checks the record**: a host with a clock that is behind finds the lock free, and the job done.
//! - **If the lease is lost, the job stops.** Another host may have begun it.
//! - **The record refuses an old token.** A stalled host does not know that it has lost the lock, and still writes. Its
//!   fencing token is lower than its successor's.
//!
//! ```sh
//! RLOCK_URL=redis://127.0.0.1:6379 cargo run -p rlock-client --example cron_once -- 2030-01-31
//! ```

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands};
use rlock_client::Locks;
use std::error::Error;
use std::time::Duration;

/// The report: its day, its text, and the token of the host that wrote it. A lock's name is a key, so the record has
/// another one.
const RECORD: &str = "report";
const LOCK: &str = "report:lock";

/// Writes unless a higher token was written: checks and writes in one step, where the data is.
const WRITE: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then return 0 end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'day', ARGV[2], 'text', ARGV[3])
    redis.call('HINCRBY', KEYS[1], 'written', 1)
    return 1";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let day = std::env::args().nth(1).unwrap_or_else(|| "today".to_owned());
    let pages = std::env::args().nth(2).map_or(Ok(20), |pages| pages.parse())?;
    let url = std::env::var("RLOCK_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    // A short lease: if a host dies in the middle of the job, another one can begin soon.
    let locks = Locks::options().lease(Duration::from_secs(3)).connect_to(url.as_str()).await?;
    let mut data = connect(&url).await?;

    let Some(guard) = locks.lock(LOCK).fenced().try_acquire().await? else {
        println!("another host is at it");
        return Ok(());
    };
    let token = guard.token();
    // If the lock is lost, the job is dropped where it awaits. If the loss shows only at the end, the record has been
    // written, and is valid all the same.
    let worked = guard.run(work(&mut data, token, &day, pages)).await;
    println!("{}", worked.map_err(|error| error.to_string())??);
    Ok(())
}

async fn work(
    data: &mut MultiplexedConnection,
    token: u64,
    day: &str,
    pages: u32,
) -> Result<&'static str, redis::RedisError> {
    if data.hget(RECORD, "day").await?.as_deref() == Some(day) {
        return Ok("done already");
    }
    let text = report(day, pages).await;
    let written = write(data, token, day, &text).await?;
    Ok(if written { "done" } else { "refused: a later host has written already" })
}

/// A placeholder for the job. It can be stopped wherever it awaits; a long computation should run in `spawn_blocking`,
/// and check `guard.is_lost()` now and then, because nothing can stop it from outside.
async fn report(day: &str, pages: u32) -> String {
    let mut text = format!("report of {day}:");
    for page in 1..=pages {
        tokio::time::sleep(Duration::from_millis(10)).await;
        text += &format!(" page {page}");
    }
    text
}

async fn write(data: &mut MultiplexedConnection, token: u64, day: &str, text: &str) -> Result<bool, redis::RedisError> {
    redis::cmd("EVAL").arg(WRITE).arg(1).arg(RECORD).arg(token).arg(day).arg(text).query_async(data).await
}

/// For the job's own data. The library's limit for a reply is half a second, which is short for a busy machine.
async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
