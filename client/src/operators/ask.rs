//! One command to the server that has a key, or to every master.
//!
//! What is read is sent once more over a new connection, if the old one was broken; what changes something is sent
//! once, since nobody knows what became of it.

use crate::link::{Doubt, Fault, Links, Node};
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use std::sync::Arc;

/// For a command that only reads.
pub(super) async fn read(links: &Links, name: &[u8], command: &Cmd) -> Result<Value, Fault> {
    match once(links, name, command).await {
        Err(fault) if fault.is_a_broken_connection() => once(links, name, command).await,
        answer => answer,
    }
}

/// For a command that changes something.
pub(super) async fn once(links: &Links, name: &[u8], command: &Cmd) -> Result<Value, Fault> {
    links.ask(name, &Doubt::default(), command).await.map(|answer| answer.value)
}

/// The same of every master, each of which answers for its own locks.
pub(super) async fn read_from_masters(links: &Links, command: &Cmd) -> Result<Vec<(Arc<Node>, Value)>, Fault> {
    let masters = links.route.masters().await?;
    try_join_all(masters.into_iter().map(|node| async move {
        let answer = read_from(links, &node, command).await?;
        Ok((node, answer))
    }))
    .await
}

pub(super) async fn read_from(links: &Links, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
    match once_from(links, node, command).await {
        Err(fault) if fault.is_a_broken_connection() => once_from(links, node, command).await,
        answer => answer,
    }
}

async fn once_from(links: &Links, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
    let answer = node.send(command).await;
    if answer.as_ref().is_err_and(Fault::doubts_the_server) {
        links.route.mark_stale(node);
    }
    answer
}
