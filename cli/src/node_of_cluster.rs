//! Whether an address is that of one node of a cluster: that node's locks must not look like all of them.

use crate::address::{Address, Way};
use rlock_client::{Locks, Reply};

/// HELLO needs no right; a server that does not know it is not said to be a node.
pub async fn is_one(at: &Address, locks: &Locks) -> bool {
    at.way() == Way::One && mode(locks).await.as_deref() == Some(b"cluster")
}

async fn mode(locks: &Locks) -> Option<Vec<u8>> {
    let Reply::List(told) = locks.masters().await.ok()?.first()?.command(&["HELLO"]).await.ok()? else { return None };
    match told.iter().skip_while(|name| **name != Reply::Text(b"mode".to_vec())).nth(1)? {
        Reply::Text(mode) => Some(mode.clone()),
        _ => None,
    }
}
