//! The nodes of a cluster, each for itself: one that does not answer must not hide what the others have, and one alone
//! must not look like all of them.
//!
//! The library asks whichever node it takes for a lock's, and all of them as one. So where they are is asked here.

use crate::address::Address;
use rlock_client::redis::{self, AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue, Value};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// All masters, as the first node tells that answers; nothing if none does.
pub async fn masters(cluster: &Address, limit: Duration) -> Vec<Address> {
    for seed in cluster.nodes() {
        let Some(Value::Array(ranges)) = ask(seed, redis::cmd("CLUSTER").arg("SLOTS"), limit).await else { continue };
        let places: BTreeSet<_> = ranges.into_iter().filter_map(master_of).collect();
        if !places.is_empty() {
            return places.iter().filter_map(|(host, port)| Address::beside(seed, host, *port)).collect();
        }
    }
    Vec::new()
}

/// Of `[first, last, [host, port, …], replicas …]`. A node that does not know its own name leaves the host empty.
fn master_of(range: Value) -> Option<(String, u16)> {
    let Value::Array(parts) = range else { return None };
    let Value::Array(master) = parts.into_iter().nth(2)? else { return None };
    let mut master = master.into_iter();
    let host: Option<String> = FromRedisValue::from_redis_value(master.next()?).ok()?;
    let port = FromRedisValue::from_redis_value(master.next()?).ok()?;
    Some((host.filter(|host| host != "?").unwrap_or_default(), port))
}

/// Whether the address is that of one node. HELLO needs no right; a server that does not know it is not said to be one.
pub async fn is_one_of_several(at: &Address, limit: Duration) -> bool {
    let [node] = at.nodes() else { return false };
    let told = ask(node, &redis::cmd("HELLO"), limit).await;
    let told = told.and_then(|told| HashMap::<String, Value>::from_redis_value(told).ok()).unwrap_or_default();
    told.get("mode").and_then(|mode| String::from_redis_value(mode.clone()).ok()).as_deref() == Some("cluster")
}

async fn ask(node: &ConnectionInfo, command: &Cmd, limit: Duration) -> Option<Value> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(Some(limit));
    let client = Client::open(node.clone()).ok()?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
    command.query_async(&mut connection).await.ok()
}
