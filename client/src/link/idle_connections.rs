//! Connections that were opened for waits and that nobody uses now. The last one that was put here is taken first; one
//! that nobody has used for long enough is closed.

use redis::aio::MultiplexedConnection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

pub(super) struct IdleConnections {
    /// For how long they are kept.
    limit: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Each with the time since when nobody uses it, in this order.
    connections: Vec<(MultiplexedConnection, Instant)>,
    /// Whether a task is there to close them.
    watched: bool,
}

impl IdleConnections {
    pub(super) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { limit, kept: Mutex::default() })
    }

    pub(super) fn take(&self) -> Option<MultiplexedConnection> {
        self.kept().connections.pop().map(|(connection, _)| connection)
    }

    pub(super) fn put(self: &Arc<Self>, connection: MultiplexedConnection) {
        let mut kept = self.kept();
        kept.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut kept.watched, true) {
            tokio::spawn(close_in_time(Arc::downgrade(self), self.limit));
        }
    }

    pub(super) fn close_all(&self) {
        self.kept().connections.clear();
    }

    /// Closes what nobody used for long enough, and tells when to look again, if there is anything left.
    fn close_old(&self) -> Option<Instant> {
        let mut kept = self.kept();
        let now = Instant::now();
        kept.connections.retain(|(_, since)| *since + self.limit > now);
        let next = kept.connections.first().map(|(_, since)| *since + self.limit);
        kept.watched = next.is_some();
        next
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs while there are idle connections.
async fn close_in_time(connections: Weak<IdleConnections>, limit: Duration) {
    let mut next = Some(Instant::now() + limit);
    while let Some(time) = next {
        sleep_until(time).await;
        let Some(connections) = connections.upgrade() else { return };
        next = connections.close_old();
    }
}
