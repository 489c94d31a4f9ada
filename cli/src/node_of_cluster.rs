//! Whether an address is that of one node of a cluster: that node's locks must not look like all of them.

use crate::address::Address;
use rlock_client::redis::{self, AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue, Value};
use std::collections::HashMap;
use std::time::Duration;

/// HELLO needs no right; a server that does not know it is not said to be a node.
pub async fn is_one(at: &Address, limit: Duration) -> bool {
    let Some(server) = at.single() else { return false };
    let told = ask(server, &redis::cmd("HELLO"), limit).await;
    let told = told.and_then(|told| HashMap::<String, Value>::from_redis_value(told).ok()).unwrap_or_default();
    told.get("mode").and_then(|mode| String::from_redis_value(mode.clone()).ok()).as_deref() == Some("cluster")
}

async fn ask(server: &ConnectionInfo, command: &Cmd, limit: Duration) -> Option<Value> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(Some(limit));
    let client = Client::open(server.clone()).ok()?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
    command.query_async(&mut connection).await.ok()
}
