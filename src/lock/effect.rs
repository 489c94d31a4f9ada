//! What a decision changes, in units of plain Redis commands.
//!
//! Each effect is written to the data set, replicated and announced as the plain command in its comment, so replicas
//! and AOF files need no module, and keyspace listeners see what that command would have shown them. (Followers get those
//! by which a lock begins together, as one command.) Times are absolute: a replay never lengthens a lease.

use super::{Mode, UnixMs};

/// An answer, and what makes it true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<A> {
    pub answer: A,
    pub effects: Effects,
}

/// Everything that a decision changes: first in the lock's own key, then in its companions. Arrays, because no
/// decision needs more, and none shall allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    pub key: KeyEffects,
    pub companions: CompanionEffects,
}

pub type KeyEffects = [Option<KeyEffect>; 3];
pub type CompanionEffects = [Option<CompanionEffect>; 2];

impl<A> Decision<A> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: A) -> Self {
        Self { answer, effects: Effects { key: [None; 3], companions: [None; 2] } }
    }

    pub fn new(answer: A, key: KeyEffects, companions: CompanionEffects) -> Self {
        Self { answer, effects: Effects { key, companions } }
    }
}

/// A change in the lock's own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// `HSET key mode <mode> <field> 1`: a read-write lock begins, with one hold on the side of its mode.
    Begin(Mode),
    /// `HINCRBY key <field> <by>`, which makes the count `makes`. On a free key, a plain lock begins.
    Count { field: Field, by: i64, makes: i64 },
    /// `HDEL key <field>`
    Drop(Field),
    /// `HSET key mode read`: a writer steps down to its reads.
    Downgrade,
    /// `PEXPIREAT key <at>`
    ExpireAt(UnixMs),
    /// `DEL key`
    Delete,
}

/// A change in what belongs to the lock beside its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompanionEffect {
    /// `SET {key}:holder:rwlock_timeout:<index> 1 PXAT <end>`
    SetHold { index: i64, end: UnixMs },
    /// For each of this holder's first `count` read holds: `PEXPIREAT <its key> <end>`, or as `SetHold` where it is dead.
    RenewHolds { count: i64, end: UnixMs },
    /// For each index from `first` to `last`: `DEL {key}:holder:rwlock_timeout:<index>`
    DropHolds { first: i64, last: i64 },
    /// `INCR redisson_lock_token:{key}`, which makes the counter `makes`.
    CountToken { makes: i64 },
    /// `PUBLISH <channel> <message>`
    Publish(Unlock),
}

/// A field of the lock's hash that counts this holder's holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `holder`: plain holds, or read holds.
    Holder,
    /// `holder:write`
    HolderWrite,
}

/// An unlock as Redisson's subscribers hear of it: a channel and a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// A plain lock: wake one.
    Plain,
    /// The last reader left: wake one.
    Read,
    /// A writer left: wake all.
    Write,
}
