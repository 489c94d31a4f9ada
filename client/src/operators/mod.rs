//! For the people on call: who holds a lock and who waits for it, where the queues are, and a lock that is broken by
//! force.
//!
//! Nothing here takes part in locking. What is read is sent once more over a new connection, if the old one was broken;
//! what changes something is sent once, since nobody knows what became of it.

mod fields;
mod inspection;
mod queue;
mod scan;
mod statistics;

pub use inspection::{HoldSide, Holder, Inspection, Kind, Waiter};
pub use queue::Queue;
pub use scan::Held;
pub use statistics::Statistics;

use crate::error::Error;
use crate::link::request::Request;
use crate::link::{Doubt, Fault, Node, Use};
use crate::locks::Locks;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use std::sync::Arc;

impl Locks {
    /// Who holds this lock, since when each waiter waits for it, and how long all of it lasts. Of the holders and of
    /// the waiters at most `count` are told (1 to 10,000); how many there are is told whole.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if nobody answers,
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the key holds something that is no lock (`WRONGTYPE`), or
    /// the user may not read it (`NOPERM`).
    pub async fn inspect(&self, name: impl Into<Vec<u8>>, count: usize) -> Result<Inspection, Error> {
        let name = name.into();
        let command = redis::cmd("RLOCK.INSPECT").arg(&name).arg("COUNT").arg(count).clone();
        let told = match self.ask(&name, &command).await {
            Err(fault) if fault.is_a_broken_connection() => self.ask(&name, &command).await,
            told => told,
        };
        told.and_then(Inspection::read).map_err(|fault| fault.into_error(&name))
    }

    /// The locks that somebody waits for, longest queue first, at most `count` of them (1 to 10,000). In a cluster
    /// every master is asked. Only locks of the client's database, and only those that its user may read.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if a master does not answer.
    pub async fn queues(&self, count: usize) -> Result<Vec<Queue>, Error> {
        let command = redis::cmd("RLOCK.QUEUES").arg("COUNT").arg(count).clone();
        let told = self.ask_masters(&command).await.map_err(about_queues)?;
        let queues = told.into_iter().map(|(_, told)| Queue::read_all(told)).collect::<Result<Vec<_>, _>>();
        let mut queues = queues.map_err(about_queues)?.concat();
        queues.sort_by_key(|queue| std::cmp::Reverse((queue.waiters, queue.oldest_wait)));
        queues.truncate(count);
        Ok(queues)
    }

    /// Frees a lock of either kind, whoever holds it: its holders find out with their next renewal, and the next
    /// waiters get it at once. Returns whether there was a lock. Fencing tokens go on growing.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect). After [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) it may have been
    /// done or not.
    pub async fn break_lock(&self, name: impl Into<Vec<u8>>) -> Result<bool, Error> {
        let name = name.into();
        let told = self.ask(&name, redis::cmd("RLOCK.BREAK").arg(&name)).await;
        let broken = told.and_then(|told| match told {
            Value::Int(broken) => Ok(broken != 0),
            _ => Err(fields::not_an_answer()),
        });
        broken.map_err(|fault| fault.into_error(&name))
    }

    /// The module's section of `INFO`, of each master.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if a master does not answer.
    pub async fn statistics(&self) -> Result<Vec<Statistics>, Error> {
        let told = self.ask_masters(redis::cmd("INFO").arg("rlock")).await.map_err(about_statistics)?;
        let read = |(node, told): (Arc<Node>, Value)| Statistics::read(node.name(), told);
        told.into_iter().map(read).collect::<Result<_, _>>().map_err(about_statistics)
    }

    async fn ask(&self, name: &[u8], command: &Cmd) -> Result<Value, Fault> {
        let links = &self.shared.links;
        let request = || Request { command: command.clone(), limit: Some(links.limits.answer) };
        links.ask(name, Use::Shared, &Doubt::default(), request).await.map(|answer| answer.value)
    }

    /// The same of every master, each of which answers for its own locks.
    async fn ask_masters(&self, command: &Cmd) -> Result<Vec<(Arc<Node>, Value)>, Fault> {
        let masters = self.shared.links.route.masters().await?;
        try_join_all(masters.into_iter().map(|node| async move {
            let told = self.ask_node(&node, command).await?;
            Ok((node, told))
        }))
        .await
    }

    async fn ask_node(&self, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
        match self.ask_node_once(node, command).await {
            Err(fault) if fault.is_a_broken_connection() => self.ask_node_once(node, command).await,
            told => told,
        }
    }

    async fn ask_node_once(&self, node: &Arc<Node>, command: &Cmd) -> Result<Value, Fault> {
        let links = &self.shared.links;
        let asking = async {
            let mut connection = node.connection(Use::Shared).await?;
            let told = connection.send(command, Some(links.limits.answer)).await;
            if matches!(told, Err(Fault::Silent(_))) {
                node.discard(&connection);
            }
            told
        };
        let told = asking.await;
        if told.as_ref().is_err_and(Fault::doubts_the_server) {
            links.route.mark_stale(node);
        }
        told
    }
}

fn about_queues(fault: Fault) -> Error {
    fault.into_error(b"queues")
}

fn about_statistics(fault: Fault) -> Error {
    fault.into_error(b"statistics")
}
