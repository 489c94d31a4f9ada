//! What is known of the locks that have many readers: see [`LastReaders`].
//!
//! Only our own commands keep it up to date. Whoever else changes such a lock, as Redisson's scripts do, is told of by the
//! server's keyspace events, and what was known is forgotten. Beside that nothing is believed that the keys themselves do
//! not confirm: the lock still ends when it did, and so does the hold in question.

use super::context::Context;
use super::key::Key;
use super::main_thread::MainThread;
use super::string::Str;
use super::waiting;
use crate::lock::{CompanionEffect, Effects, Expiry, KeyEffect, Kind, LastReaders, ReadHold, names};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// With fewer fields in its hash, a lock is looked at faster than it is kept in mind.
const MANY: usize = 16;

/// Locks that are kept in mind at a time. With more, all are forgotten: each can be looked at again.
const LOCKS_MAX: usize = 1_000;

struct Known {
    last: LastReaders,
    /// When the lock itself ends, as we wrote it.
    lease: Expiry,
}

type Locks = HashMap<(i32, Box<[u8]>), Known, RandomState>;

static LOCKS: MainThread<Option<Locks>> = MainThread::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether nothing is known of any lock: what others ask first, so it costs next to nothing.
pub(super) fn is_empty() -> bool {
    COUNT.load(Relaxed) == 0
}

/// Whether this lock's readers are worth being kept in mind.
pub(super) fn are(key: &Key<'_>) -> bool {
    key.length() > MANY
}

/// The hold that ends last, of all but those of `holder` above the index `own`. To be confirmed by its key.
pub(super) fn last_beside(context: &Context, key: &Key<'_>, holder: Str<'_>, own: i64) -> Option<ReadHold> {
    let (lease, holder) = (key.expiry(), holder.bytes());
    let find = |known: &mut Known| known.last.last_beside(holder, own).filter(|_| known.lease == lease).cloned();
    of(context, key.name(), find).flatten()
}

/// After a look at all holds, but those that effects are about to change, which are to follow.
pub(super) fn remember(context: &Context, key: &Key<'_>, holds: Vec<ReadHold>) {
    waiting::listen_to_keys(context, Kind::Read);
    let lease = key.expiry();
    with(|locks| {
        if locks.len() >= LOCKS_MAX {
            locks.clear();
        }
        locks.insert((context.database(), key.name().bytes().into()), Known { last: LastReaders::of(holds), lease });
    });
}

/// Before effects of ours are written.
pub(super) fn follow(context: &Context, key: &Key<'_>, holder: Str<'_>, effects: &Effects) {
    if is_empty() {
        return;
    }
    let keeps = |known: &mut Known| known.lease == key.expiry() && known.follow(holder.bytes(), effects);
    if of(context, key.name(), keeps) == Some(false) {
        forget(context, key.name());
    }
}

impl Known {
    /// False where it would take too much.
    fn follow(&mut self, holder: &[u8], effects: &Effects) -> bool {
        for effect in effects.key.iter().flatten() {
            match *effect {
                KeyEffect::Begin(_) | KeyEffect::Delete => return false,
                KeyEffect::ExpireAt(end) => self.lease = Expiry::At(end),
                KeyEffect::Count { .. } | KeyEffect::Drop(_) | KeyEffect::Downgrade => {}
            }
        }
        let hold = |index, end| ReadHold { holder: holder.into(), index, end: Expiry::At(end) };
        for effect in effects.companions.iter().flatten() {
            match *effect {
                CompanionEffect::SetHold { index, end } => self.last.set(hold(index, end)),
                CompanionEffect::RenewHolds { count, .. } if count > FOLLOWED_MAX => return false,
                CompanionEffect::RenewHolds { count, end } => {
                    (1..=count).for_each(|index| self.last.set(hold(index, end)));
                }
                CompanionEffect::DropHolds { first, last } => self.last.drop_holds(holder, first..=last),
                CompanionEffect::CountToken { .. } | CompanionEffect::Publish(_) => {}
            }
        }
        true
    }
}

/// More holds of one holder are not worth it.
const FOLLOWED_MAX: i64 = 16;

pub(super) fn forget(context: &Context, key: Str<'_>) {
    if !is_empty() {
        with(|locks| drop(locks.remove(&(context.database(), key.bytes().into()))));
    }
}

/// Somebody else has changed this key: a lock, or one of a lock's read holds.
pub(super) fn forget_changed(context: &Context, name: Str<'_>) {
    forget(context, name);
    if !is_empty() && names::may_be_read_hold(name.bytes()) {
        let (changed, name) = (context.database(), name.bytes());
        with(|locks| {
            locks.retain(|(database, lock), _| *database != changed || !names::may_be_read_hold_of(lock, name));
        });
    }
}

pub(super) fn forget_all() {
    if !is_empty() {
        with(|locks| *locks = Locks::default());
    }
}

/// Gives the memory back, when no command can come any more.
pub(super) fn clear() {
    LOCKS.with(|locks| *locks = None);
}

fn of<R>(context: &Context, key: Str<'_>, use_it: impl FnOnce(&mut Known) -> R) -> Option<R> {
    if is_empty() {
        return None;
    }
    let name = (context.database(), key.bytes().into());
    with(|locks| locks.get_mut(&name).map(use_it))
}

fn with<R>(use_them: impl FnOnce(&mut Locks) -> R) -> R {
    LOCKS.with(|locks| {
        let locks = locks.get_or_insert_default();
        let result = use_them(locks);
        COUNT.store(locks.len(), Relaxed);
        result
    })
}
