//! A client, which makes locks.

use crate::fencing::Unfenced;
use crate::kind::{Permit, Several};
use crate::lock::{Lock, ReadWriteLock};
use crate::shell::Shared;
use rlock_client_core::Side;
use std::fmt;
use std::sync::Arc;

/// A client for the locks of one server, one cluster or one master with its replicas. Clones share everything; a
/// program needs one. [How it uses connections](crate#connections).
///
/// What goes on in the background has small threads of its own, so it can be used from any executor, and
/// keeps its locks also when the program keeps its own threads busy. Guards keep it alive; when the last clone and the
/// last guard are gone, so are its connections.
#[derive(Clone)]
pub struct Locks {
    pub(crate) shared: Arc<Shared>,
}

impl Locks {
    /// A lock of that name: exclusive, one holder at a time. In Redisson it is `getLock(name)`, with
    /// [`fenced`](Lock::fenced) also `getFencedLock(name)`. The name is the lock's key: no data can be there.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.shared.clone(), vec![Arc::from(name.as_ref())], Side::Plain, None)
    }

    /// A read-write lock of that name: readers share it, a writer has it alone. In Redisson it is
    /// `getReadWriteLock(name)`.
    #[must_use]
    pub fn read_write(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.shared.clone(), Arc::from(name.as_ref()))
    }

    /// Permits of that name, of which one is acquired if fewer than `limit` are taken: so at most that many guards are there
    /// at a time. The limit is this request's own; who asks with another one is judged by that. It is 1 to 100,000.
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

    /// The locks of all these names, which are acquired in one step: all or none. They are locks like any other, up to 64; in
    /// a cluster of one slot; each name is given once. While they are waited for none of them is taken, so
    /// two sets cannot wait for each other. The guard is lost as soon as one of them is.
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

    /// What the holders of this client begin with, but those of [owners](Lock::owner): `host:process:uuid`, or
    /// `name:uuid` with a [name](crate::Options::name). A service that logs it when it starts can be found by it.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// Waits until the server has answered to all that is being given back in the background: guards that were dropped,
    /// and acquires. For a program that is about to end. It takes as long as the server does, and ends by itself when the
    /// leases must have ended; so put a time limit around it.
    ///
    /// # Cancel safety
    /// Cancel safe: it only looks.
    pub async fn settle(&self) {
        self.shared.settle().await;
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
