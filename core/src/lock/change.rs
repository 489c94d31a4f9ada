//! What a decision changes, in units of plain Redis commands; and the plan of all changes of one step.
//!
//! Each change is written to the data set, replicated and announced as the plain command in its comment, so replicas
//! and AOF files need no module, and keyspace listeners see what that command would have shown them. Times are
//! absolute: a replay never lengthens a lease.

use super::{Expiry, READ_HOLDS_MAX, Side, UnixMs};

/// An answer, and the changes to apply with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<A> {
    pub answer: A,
    pub changes: Changes,
}

impl<A> Decision<A> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: A) -> Self {
        Self::new(answer, [])
    }

    pub fn new<const N: usize>(answer: A, changes: [Option<Change>; N]) -> Self {
        Self { answer, changes: Changes::of(changes) }
    }
}

/// The maximum number of changes of one decision.
const MOST: usize = 5;

/// The changes of a decision: first those in the lock's own key, then those in the keys that belong to it. An array, because
/// their number is bounded and no decision may allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    list: [Change; MOST],
    on_lock_key: u8,
    length: u8,
}

impl Changes {
    #[must_use]
    pub fn of<const N: usize>(changes: [Option<Change>; N]) -> Self {
        const { assert!(N <= MOST) };
        let mut all = Self { list: [Change::Delete; MOST], on_lock_key: 0, length: 0 };
        for (change, place) in changes.into_iter().flatten().zip(&mut all.list) {
            *place = change;
            debug_assert!(!change.is_on_lock_key() || all.on_lock_key == all.length, "what is in the lock comes first");
            all.on_lock_key = all.on_lock_key.wrapping_add(u8::from(change.is_on_lock_key()));
            all.length = all.length.wrapping_add(1);
        }
        all
    }

    fn all(&self) -> &[Change] {
        self.list.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// The changes in the lock's own key.
    #[must_use]
    pub fn on_lock_key(&self) -> &[Change] {
        self.list.get(..usize::from(self.on_lock_key)).unwrap_or_default()
    }

    /// All other changes.
    #[must_use]
    pub fn on_side_keys(&self) -> &[Change] {
        self.list.get(usize::from(self.on_lock_key)..usize::from(self.length)).unwrap_or_default()
    }

    /// Whether one of the changes may write a key that is absent, or present but hidden.
    #[must_use]
    pub fn may_create_keys(&self) -> bool {
        self.all().iter().any(|change| change.may_create_key())
    }

    /// Whether the changes leave nothing of the lock.
    #[must_use]
    pub fn frees(&self) -> bool {
        self.on_lock_key().contains(&Change::Delete)
    }

    /// Whether the changes begin a lock that was free.
    #[must_use]
    pub fn begins(&self) -> bool {
        matches!(self.on_lock_key(), [Change::Begin { .. }, ..])
    }

    /// The end of the lease that one of these changes sets: of the lock's lease, or of the holder's permit. A permit may end
    /// long before the key, which ends with the last permit.
    #[must_use]
    pub fn lease_end(&self) -> Option<UnixMs> {
        self.on_lock_key().iter().find_map(|change| match change {
            Change::Begin { end, .. } | Change::SetPermit { end, .. } | Change::ExpireAt(end) => Some(*end),
            _ => None,
        })
    }

    /// The same changes, without the message to Redisson's waiters.
    pub(super) fn unpublished(&self) -> Self {
        let mut kept = *self;
        if let [.., Change::Publish(_)] = self.all() {
            kept.length = kept.length.saturating_sub(1);
        }
        debug_assert!(!kept.all().iter().any(|change| matches!(change, Change::Publish(_))), "it is the last of all");
        kept
    }

    /// Whether these changes end the lock sooner than it ends now.
    pub(super) fn ends_before(&self, current: Expiry) -> bool {
        self.lease_end().is_some_and(|end| Expiry::At(end) < current)
    }
}

/// A number of read holds of one holder: never more than [`READ_HOLDS_MAX`]. Small, so that a change is two words.
pub type Holds = u16;

/// A number of ended permits that are dropped in one step.
pub type Ended = u16;

/// The number of read holds, cut to the number that one command may touch.
pub(super) fn bounded(holds: i64) -> Holds {
    Holds::try_from(holds.clamp(0, READ_HOLDS_MAX)).unwrap_or(Holds::MAX)
}

const _: () = assert!(size_of::<Option<Change>>() <= 16, "changes are copied a lot");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The lock begins on a free key, with one hold and its lease: `HINCRBY key <holder> 1` of a plain lock, `HSET key
    /// mode <mode> <field> 1` of a read-write lock, `ZADD key <end> <holder>` of permits; and `PEXPIREAT key <end>`. One
    /// change, since a lock without its lease would never end: followers get both in one step.
    Begin { side: Side, end: UnixMs },
    /// `HINCRBY key <field> <by>`, which makes the count `makes`.
    Count { field: Field, by: i8, makes: i64 },
    /// `HDEL key <field>`
    Drop(Field),
    /// `HSET key mode read`: a writer steps down to its reads.
    Downgrade,
    /// `PEXPIREAT key <at>`
    ExpireAt(UnixMs),
    /// `DEL key`
    Delete,
    /// `ZADD key <end> <holder>` on a key that has permits. `again`: it replaces this holder's own permit.
    SetPermit { end: UnixMs, again: bool },
    /// `ZREM key <holder>`
    DropPermit,
    /// `ZREMRANGEBYRANK key 0 <count - 1>`: the permits that have ended.
    DropEnded { count: Ended },

    /// `SET {key}:holder:rwlock_timeout:<index> 1 PXAT <end>`
    SetHold { index: Holds, end: UnixMs },
    /// `PEXPIREAT <its key> <end>` for each of this holder's first `count` read holds; a dead one is set as by `SetHold`.
    RenewHolds { count: Holds, end: UnixMs },
    /// For each of `count` indices from `first` on: `DEL {key}:holder:rwlock_timeout:<index>`
    DropHolds { first: i64, count: Holds },
    /// `INCR redisson_lock_token:{key}`, which makes the counter `makes`.
    CountToken { makes: i64 },
    /// `SET redisson_lock_token:{key} <to> KEEPTTL`
    SetToken { to: i64 },
    /// `SET rlock_answer:{key} <the plan's answer> PXAT <end>`, written first: where the lock has ended, the answer is there.
    StoreAnswer { end: UnixMs },
    /// `PUBLISH <channel> <message>`
    Publish(Unlock),
    /// No command: this holder's permit already has the requested end.
    PermitStays,
}

impl Change {
    /// Whether the change is in the lock's own key. All such changes are written before any other.
    fn is_on_lock_key(self) -> bool {
        !matches!(
            self,
            Self::SetHold { .. }
                | Self::RenewHolds { .. }
                | Self::DropHolds { .. }
                | Self::CountToken { .. }
                | Self::SetToken { .. }
                | Self::StoreAnswer { .. }
                | Self::Publish(_)
                | Self::PermitStays
        )
    }

    fn may_create_key(self) -> bool {
        let holds_a_value = matches!(self, Self::CountToken { .. } | Self::SetToken { .. } | Self::StoreAnswer { .. });
        holds_a_value || matches!(self, Self::Begin { .. } | Self::SetHold { .. } | Self::RenewHolds { .. })
    }

    /// The fencing token that the change gives.
    pub(super) fn token(self) -> Option<i64> {
        match self {
            Self::CountToken { makes } => Some(makes),
            Self::SetToken { to } => Some(to),
            _ => None,
        }
    }
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

/// The changes that are written in one step, in this order. `T` is a string as the host has it, and `N` another one, which may
/// have a shorter lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a, T, N = T> {
    pub holder: T,
    pub changes: &'a Changes,
    /// For a hand-over: the next holder, and what its grant changes.
    pub next: Option<(N, &'a Changes)>,
    /// What [`Change::StoreAnswer`] stores.
    pub answer: Option<T>,
}

impl<'a, T, N> Plan<'a, T, N> {
    /// One holder's changes, and nothing else.
    pub fn of(holder: T, changes: &'a Changes) -> Self {
        Self { holder, changes, next: None, answer: None }
    }

    /// Whether the plan may write a key that is absent, or present but hidden.
    #[must_use]
    pub fn may_create_keys(&self) -> bool {
        self.next.is_some() || self.changes.may_create_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Change = Change::Begin { side: Side::Plain, end: 9 };
    const COUNT_TOKEN: Change = Change::CountToken { makes: 1 };

    #[test]
    fn a_plan_may_create_keys_by_any_of_its_changes_or_by_the_next_grant() {
        let may_create =
            |change| Plan::<_>::of("ann", &Changes::of([Some(Change::Delete), Some(change)])).may_create_keys();
        for change in [BEGIN, COUNT_TOKEN, Change::SetToken { to: 1 }] {
            assert!(may_create(change), "{change:?}");
        }
        for change in [Change::SetHold { index: 1, end: 9 }, Change::RenewHolds { count: 1, end: 9 }] {
            assert!(may_create(change), "{change:?}");
        }
        for change in [Change::ExpireAt(9), Change::DropHolds { first: 1, count: 1 }, Change::Publish(Unlock::Plain)] {
            assert!(!may_create(change), "{change:?}");
        }
        let (released, granted) = (Changes::of([Some(Change::Delete)]), Changes::of([Some(BEGIN)]));
        assert!(Plan { next: Some(("bob", &granted)), ..Plan::of("ann", &released) }.may_create_keys());
    }

    #[test]
    fn changes_tell_whether_they_free_the_lock() {
        let of = |change| Changes::of([Some(change)]);
        assert!(of(Change::Delete).frees() && !of(Change::DropPermit).frees());
    }
}
