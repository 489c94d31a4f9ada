//! A flash sale: ten items, and thirty users that each click three times at once.
//!
//! No user may be charged twice, and no more may be sold than there is. Two different means ensure that:
//!
//! - **A lock for each user.** Between "has this user ordered?" and "the order is written" is a payment, which takes
//!   time and does not involve Redis. Only a lock keeps a second click out for that long. Different users do not share
//!   a lock.
//! - **One atomic step for the stock**, which all users share. It needs no lock: with one lock for all, users would
//!   queue for each other's payments.
//!
//! ```sh
//! RLOCK_URL=redis://127.0.0.1:6379 cargo run -p rlock-client --example flash_sale
//! ```

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands};
use rlock_client::Locks;
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;

const ITEMS: u32 = 10;
const USERS: u32 = 30;
const CLICKS: u32 = 3;

/// Takes one if there is one. GET and DECR as two requests would let two users take the last one.
const TAKE_ONE: &str = "
    if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
    redis.call('DECR', KEYS[1])
    return 1";

/// Any error, passed between tasks.
type Failed = Box<dyn Error + Send + Sync>;

enum Outcome {
    Ordered,
    HadOrdered,
    SoldOut,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let url = std::env::var("RLOCK_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let locks = Locks::connect(url.as_str()).await?;
    let mut data = connect(&url).await?;
    data.del(&["sale:orders", "sale:payments"]).await?;
    data.set("sale:stock", ITEMS).await?;

    let mut clicks = JoinSet::new();
    for user in (0..USERS).flat_map(|user| [user; CLICKS as usize]) {
        clicks.spawn(click(locks.clone(), data.clone(), format!("user-{user}")));
    }
    let (mut ordered, mut had_ordered, mut sold_out) = (0, 0, 0);
    while let Some(outcome) = clicks.join_next().await {
        match outcome?? {
            Outcome::Ordered => ordered += 1,
            Outcome::HadOrdered => had_ordered += 1,
            Outcome::SoldOut => sold_out += 1,
        }
    }
    let left = data.get("sale:stock").await?.unwrap_or_default();
    println!("{ordered} ordered, {had_ordered} had ordered already, {sold_out} came too late; {left} left");
    Ok(())
}

async fn click(locks: Locks, data: MultiplexedConnection, user: String) -> Result<Outcome, Failed> {
    // The same user's other clicks wait here, in the server. A web request would wait only as long as its visitor does.
    let guard = locks.lock(format!("sale:user:{user}")).acquire_timeout(Duration::from_secs(60)).await?;
    // If the lock is lost, another click of this user may have it, and the order is dropped where it awaits.
    Ok(guard.run(order(data, &user)).await??)
}

async fn order(mut data: MultiplexedConnection, user: &str) -> Result<Outcome, redis::RedisError> {
    if data.hexists("sale:orders", user).await? {
        return Ok(Outcome::HadOrdered);
    }
    let taken: bool = redis::cmd("EVAL").arg(TAKE_ONE).arg(1).arg("sale:stock").query_async(&mut data).await?;
    if !taken {
        return Ok(Outcome::SoldOut);
    }
    // If the task stops between here and the order, it has taken an item that is not sold: too few are sold then, never
    // too many.
    pay(&mut data).await?;
    data.hset("sale:orders", user, "one item").await?;
    Ok(Outcome::Ordered)
}

/// A placeholder for a payment: slow, and repeated if it is requested again.
async fn pay(data: &mut MultiplexedConnection) -> Result<(), redis::RedisError> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    data.incr("sale:payments", 1).await.map(drop)
}

/// For the shop's own data. The library's limit for a reply is half a second, which is short for a busy machine.
async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
