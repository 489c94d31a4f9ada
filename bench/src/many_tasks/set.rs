//! A lock of a plain server, as most write their own: `SET NX PX`, and a script that deletes only what its caller has
//! set. All tasks share one connection.

use super::messages::Messages;
use super::pauses::Pauses;
use crate::contenders::LEASE;
use crate::crates::Failure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, Script};
use rlock_testing::scripts;

pub struct Set {
    connection: MultiplexedConnection,
    release: Script,
    again: Again,
}

/// When a task asks again that finds the lock taken.
enum Again {
    AfterAPause(Pauses),
    /// The release publishes.
    WhenToldSo(Messages),
}

impl Set {
    pub async fn with_pauses(address: &str) -> RedisResult<Self> {
        Self::connect(address, scripts::COMPARE_AND_DELETE, Again::AfterAPause(Pauses::default())).await
    }

    pub async fn with_messages(address: &str, locks: impl Iterator<Item = String>) -> RedisResult<Self> {
        let messages = Messages::subscribe(address, locks).await?;
        Self::connect(address, COMPARE_DELETE_AND_PUBLISH, Again::WhenToldSo(messages)).await
    }

    async fn connect(address: &str, release: &str, again: Again) -> RedisResult<Self> {
        // An answer takes as long as it takes: a task that gave up could not know whether it has the lock.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = Client::open(address)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { connection, release: Script::new(release), again })
    }

    /// Waits for the lock, does the work, and gives the lock back.
    pub async fn cycle<W: Future>(&self, lock: &str, holder: &str, work: impl FnOnce() -> W) -> Result<(), Failure> {
        while !self.try_to_take(lock, holder).await? {
            match &self.again {
                Again::AfterAPause(pauses) => pauses.pause().await,
                Again::WhenToldSo(messages) => messages.wait_for(lock).await,
            }
        }
        work().await;
        if self.give_back(lock, holder).await? { Ok(()) } else { Err("the lock was somebody else's in the end".into()) }
    }

    async fn try_to_take(&self, lock: &str, holder: &str) -> RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg(lock).arg(holder).arg("NX").arg("PX").arg(LEASE);
        set.query_async(&mut self.connection.clone()).await
    }

    async fn give_back(&self, lock: &str, holder: &str) -> RedisResult<bool> {
        let mut release = self.release.key(lock);
        if let Again::WhenToldSo(messages) = &self.again {
            release.key(messages.channel(lock));
        }
        release.arg(holder).invoke_async(&mut self.connection.clone()).await
    }
}

/// KEYS: lock, channel. ARGV: holder.
const COMPARE_DELETE_AND_PUBLISH: &str = "
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '')
return 1";
