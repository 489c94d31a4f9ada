//! Who of a lock's many readers is its last, the one whose lease is the lock's own, as far as that was found out.
//!
//! Redisson's layout does not say it: when a reader leaves, the lease of the lock becomes the longest of those that stay,
//! and each of them is in a key of its own. To look at them all costs the server a ms for every few hundred readers, at
//! each release. But mostly it is not the last one who leaves. So the last one is remembered.
//!
//! What is remembered is only used as long as the keys themselves confirm it: the lock still ends when it did, and so does
//! this reader's hold. Then no other hold ends later: all were looked at once, and whoever gave one a longer lease after
//! that, by our commands or by Redisson's scripts, gave it to the lock as well.

use super::main_thread::MainThread;
use crate::lock::Expiry;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A read hold, and when it and the lock end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastReader {
    pub holder: Box<[u8]>,
    pub index: i64,
    pub end: Expiry,
}

/// With fewer readers the look at all costs no more than to remember.
pub(super) const MANY: usize = 16;

/// Locks that are remembered at a time. With more, all are forgotten, since they can be looked at again.
const LOCKS_MAX: usize = 1_000;

type Locks = HashMap<(i32, Box<[u8]>), LastReader, RandomState>;

static LOCKS: MainThread<Option<Locks>> = MainThread::new(None);

pub(super) fn recall(database: i32, key: &[u8]) -> Option<LastReader> {
    LOCKS.with(|locks| locks.as_ref()?.get(&(database, key.into())).cloned())
}

/// After all were looked at.
pub(super) fn remember(database: i32, key: &[u8], reader: LastReader) {
    LOCKS.with(|locks| {
        let locks = locks.get_or_insert_default();
        if locks.len() >= LOCKS_MAX {
            locks.clear();
        }
        locks.insert((database, key.into()), reader);
    });
}

/// A reader's lease becomes the lock's, which has ended `before` until now. If that is not what is remembered, somebody
/// else has changed the lock, and nothing is known any more.
pub(super) fn succeed(database: i32, key: &[u8], before: Expiry, reader: LastReader) {
    LOCKS.with(|locks| {
        let Some(locks) = locks else { return };
        let name = (database, key.into());
        match locks.get_mut(&name) {
            Some(last) if last.end == before => *last = reader,
            _ => drop(locks.remove(&name)),
        }
    });
}

/// Gives the memory back, when no command can come any more.
pub(super) fn clear() {
    LOCKS.with(|locks| *locks = None);
}
