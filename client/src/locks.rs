//! A client: the connections, the watchdog, and the identity that its holders begin with.

use crate::error::Error;
use crate::hold::Hold;
use crate::link::Links;
use crate::lock::{Lock, ReadWriteLock};
use crate::options::Options;
use crate::request::Side;
use crate::watchdog::Watchdog;
use redis::IntoConnectionInfo;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use uuid::Uuid;

/// A client for the locks of one server, one cluster or one master with its replicas. Clones share everything; a program
/// needs one. [How it uses connections](crate#connections).
///
/// It belongs to the tokio runtime that it was opened in: when that ends, nothing is renewed and nothing given back any more.
/// Guards keep it alive; when the last clone and the last guard are gone, so are its connections and its watchdog.
#[derive(Clone)]
pub struct Locks {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub options: Options,
    pub links: Arc<Links>,
    pub watchdog: Arc<Watchdog>,
    pub runtime: Handle,
    identity: Uuid,
    holders: AtomicU64,
    /// The holds of owners that callers chose, since several guards may share one.
    named: Mutex<Named>,
    watching: AbortHandle,
    /// How much is being given back of which nobody has heard anything yet.
    pub unsettled: watch::Sender<usize>,
}

/// By the lock's name and the owner.
type Named = HashMap<(Vec<u8>, Vec<u8>), Weak<Hold>>;

impl Locks {
    /// Connects to one server, with the default settings: `redis://host:port`, `rediss://` for TLS, `redis+unix:///path`.
    ///
    /// # Cancel safety
    /// As [`Options::connect_to`].
    ///
    /// # Errors
    /// As [`Options::connect_to`].
    pub async fn connect(address: impl IntoConnectionInfo) -> Result<Self, Error> {
        Self::options().connect_to(address).await
    }

    /// Settings, and the ways to clusters, sentinels and existing connections.
    pub fn options() -> Options {
        Options::default()
    }

    /// A lock of that name: exclusive, one holder at a time. In Redisson it is `getLock(name)`, with
    /// [`fenced`](Lock::fenced) also `getFencedLock(name)`. The name is the lock's key: no data can be there.
    pub fn lock(&self, name: impl Into<Vec<u8>>) -> Lock {
        Lock::new(self.clone(), name.into(), Side::Plain)
    }

    /// A read-write lock of that name: readers share it, a writer has it alone. In Redisson it is `getReadWriteLock(name)`.
    #[must_use]
    pub fn read_write(&self, name: impl Into<Vec<u8>>) -> ReadWriteLock {
        ReadWriteLock::new(self.clone(), name.into())
    }

    /// Waits until the server has answered to all that is being given back in the background: guards that were dropped, and
    /// acquires. For a program that is about to end. It takes as long as the server does, so put a time limit around it.
    ///
    /// # Cancel safety
    /// Cancel safe: it only looks.
    pub async fn settle(&self) {
        let mut unsettled = self.shared.unsettled.subscribe();
        // Never an error while this client is there.
        let _ = unsettled.wait_for(|count| *count == 0).await;
    }

    pub(crate) fn new(links: Links, options: Options) -> Self {
        let (links, watchdog) = (Arc::new(links), Arc::<Watchdog>::default());
        let runtime = Handle::current();
        let watching = runtime.spawn(watchdog.clone().run(links.clone())).abort_handle();
        let shared = Shared {
            options,
            links,
            watchdog,
            runtime,
            identity: Uuid::new_v4(),
            holders: AtomicU64::new(1),
            named: Mutex::default(),
            watching,
            unsettled: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Shared {
    /// A holder that nobody has had before: `<uuid>:<n>`, as Redisson's `<uuid>:<thread>`.
    pub(crate) fn fresh_holder(&self) -> Vec<u8> {
        format!("{}:{}", self.identity, self.holders.fetch_add(1, Relaxed)).into_bytes()
    }

    /// The hold of an owner that the caller chose.
    pub(crate) fn named_hold(&self, key: &[u8], owner: &[u8]) -> Arc<Hold> {
        let mut named = self.named();
        // Now and then, so that owners whom nobody uses any more do not pile up.
        if named.len().is_power_of_two() {
            named.retain(|_, hold| hold.strong_count() > 0);
        }
        let place = named.entry((key.to_vec(), owner.to_vec())).or_default();
        match place.upgrade() {
            Some(hold) => hold,
            None => {
                let hold = Arc::new(Hold::new(key.to_vec(), owner.to_vec(), true));
                *place = Arc::downgrade(&hold);
                hold
            }
        }
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}
