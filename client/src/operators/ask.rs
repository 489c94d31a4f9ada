//! One command to the server that has a key, or to every master. It is asked in the client's thread, whoever wants to know.
//!
//! What is read is sent once more over a new connection, if the old one was broken; what changes something is sent
//! once, since nobody knows what became of it.

use crate::core::Shared;
use crate::foreign::heard;
use crate::link::{Doubt, Fault, Node};
use crate::runtime::Ended;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use std::sync::Arc;

/// For a command that only reads.
pub(super) async fn read(shared: &Shared, name: &[u8], command: &Cmd) -> Result<Value, Fault> {
    match once(shared, name, command).await {
        Err(fault) if fault.is_a_broken_connection() => once(shared, name, command).await,
        answer => answer,
    }
}

/// For a command that changes something.
pub(super) async fn once(shared: &Shared, name: &[u8], command: &Cmd) -> Result<Value, Fault> {
    let (links, name, command) = (shared.links.clone(), name.to_vec(), command.clone());
    there(shared, async move { links.ask(&name, &Doubt::default(), &command).await.map(|answer| answer.value) }).await
}

/// The same of every master, each of which answers for its own locks.
pub(super) async fn read_from_masters(shared: &Shared, command: &Cmd) -> Result<Vec<(Arc<Node>, Value)>, Fault> {
    try_join_all(masters(shared).await?.into_iter().map(|node| async move {
        let answer = read_from(shared, &node, command).await?;
        Ok((node, answer))
    }))
    .await
}

pub(super) async fn masters(shared: &Shared) -> Result<Vec<Arc<Node>>, Fault> {
    let links = shared.links.clone();
    there(shared, async move { links.route.masters().await }).await
}

pub(super) async fn read_from(shared: &Shared, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
    match once_from(shared, node, command).await {
        Err(fault) if fault.is_a_broken_connection() => once_from(shared, node, command).await,
        answer => answer,
    }
}

async fn once_from(shared: &Shared, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
    let (links, node, command) = (shared.links.clone(), node.clone(), command.clone());
    there(shared, async move {
        let answer = node.send(&command).await;
        if answer.as_ref().is_err_and(Fault::doubts_the_server) {
            links.route.mark_stale(&node);
        }
        answer
    })
    .await
}

async fn there<T: Send + 'static>(
    shared: &Shared,
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let nobody = || Fault::Unreachable(Fault::broken_at_once());
    if !shared.thread.is_here() {
        return Err(nobody());
    }
    heard(shared.thread.spawn(work)).await.unwrap_or_else(|Ended| Err(nobody()))
}
