//! The client, which creates locks.

use crate::fencing::Unfenced;
use crate::kind::{Permit, Several};
use crate::lock::{Lock, ReadWriteLock};
use crate::shell::Shared;
use rlock_client_core::Side;
use std::fmt;
use std::sync::Arc;

/// A client for the locks of one server, one cluster, or one master with replicas. Clones share everything; a program
/// needs one. [How it uses connections](crate#connections).
///
/// Its background work has small threads of its own, so you can use it from any executor, and it keeps its locks while
/// the program blocks its own threads. Guards keep it alive; its connections end with the last clone and the last
/// guard.
#[derive(Clone)]
pub struct Locks {
    pub(crate) shared: Arc<Shared>,
}

impl Locks {
    /// A lock with this name: exclusive, one holder at a time. In Redisson it is `getLock(name)`, with
    /// [`fenced`](Lock::fenced) also `getFencedLock(name)`. The name is the lock's key: no data can be stored there.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.shared.clone(), vec![Arc::from(name.as_ref())], Side::Plain, None)
    }

    /// A read-write lock with this name: readers share it, a writer has it alone. In Redisson it is
    /// `getReadWriteLock(name)`.
    #[must_use]
    pub fn read_write(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.shared.clone(), Arc::from(name.as_ref()))
    }

    /// Permits with this name. One is acquired if fewer than `limit` are taken: so there are at most `limit` guards at
    /// a time. The limit belongs to the request: the server judges each request by its own. It is 1 to 100,000.
    ///
    /// ```no_run
    /// # async fn train() {}
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// locks.permits("gpu", 4).acquire().await?.run(train()).await
    /// # }
    /// ```
    pub fn permits(&self, name: impl AsRef<[u8]>, limit: u32) -> Lock<Unfenced, Permit> {
        Lock::new(self.shared.clone(), vec![Arc::from(name.as_ref())], Side::Plain, Some(limit))
    }

    /// The locks with all these names, acquired in one step: all or none. They are plain locks, up to 64, in a cluster
    /// of one slot; each name appears once. While they are waited for, none of them is taken, so two sets cannot
    /// deadlock. The guard is lost as soon as one of them is.
    ///
    /// ```no_run
    /// # async fn move_the_money() {}
    /// # async fn example(locks: rlock_client::Locks) -> Result<(), rlock_client::Error> {
    /// locks.all(["account:1", "account:2"]).acquire().await?.run(move_the_money()).await
    /// # }
    /// ```
    pub fn all(&self, names: impl IntoIterator<Item: AsRef<[u8]>>) -> Lock<Unfenced, Several> {
        let names = names.into_iter().map(|name| Arc::from(name.as_ref()));
        Lock::new(self.shared.clone(), names.collect(), Side::Plain, None)
    }

    /// The common prefix of this client's holders, except those of [owners](Lock::owner): `host:process:uuid`, or
    /// `name:uuid` with a [name](crate::Options::name). If a service logs it at its start, operators can find the
    /// service by a holder.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// Waits until the server has replied to everything that is being released in the background: dropped guards and
    /// dropped acquires. For a program that is about to end. It takes as long as the server does, and ends by itself
    /// when the leases must have ended; so set a time limit around it.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settle(&self) {
        self.shared.settle().await;
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
