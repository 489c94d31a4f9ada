//! A client, which makes locks.

use crate::engine::Side;
use crate::lock::{Lock, ReadWriteLock};
use crate::shell::Shared;
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
        Lock::new(self.shared.clone(), Arc::from(name.as_ref()), Side::Plain)
    }

    /// A read-write lock of that name: readers share it, a writer has it alone. In Redisson it is
    /// `getReadWriteLock(name)`.
    #[must_use]
    pub fn read_write(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock::new(self.shared.clone(), Arc::from(name.as_ref()))
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
