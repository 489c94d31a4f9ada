//! A lock on a plain server, as it is usually written by hand: `SET NX PX`, a script that deletes only what its caller has set,
//! and a message at each release. All tasks share one connection.

use super::Failure;
use super::messages::Messages;
use crate::contenders::LEASE;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, Script};

pub struct Set {
    connection: MultiplexedConnection,
    release: Script,
    messages: Messages,
}

impl Set {
    pub async fn connect(address: &str, locks: impl Iterator<Item = String>) -> RedisResult<Self> {
        let messages = Messages::subscribe(address, locks).await?;
        // A task that gave up on a reply could not know whether it has the lock.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = Client::open(address)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { connection, release: Script::new(COMPARE_DELETE_AND_PUBLISH), messages })
    }

    /// Waits for the lock, does the work, and releases the lock.
    pub async fn cycle<W: Future>(&self, lock: &str, holder: &str, work: impl FnOnce() -> W) -> Result<(), Failure> {
        while !self.acquire(lock, holder).await? {
            self.messages.wait_for(lock).await;
        }
        work().await;
        if self.release(lock, holder).await? { Ok(()) } else { Err("the lock had another holder in the end".into()) }
    }

    async fn acquire(&self, lock: &str, holder: &str) -> RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg(lock).arg(holder).arg("NX").arg("PX").arg(LEASE);
        set.query_async(&mut self.connection.clone()).await
    }

    async fn release(&self, lock: &str, holder: &str) -> RedisResult<bool> {
        let mut release = self.release.key(lock);
        release.key(self.messages.channel(lock)).arg(holder);
        release.invoke_async(&mut self.connection.clone()).await
    }
}

/// KEYS: lock, channel. ARGV: holder.
const COMPARE_DELETE_AND_PUBLISH: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '')
return 1";
