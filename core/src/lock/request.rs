//! What clients ask of a lock, and the answers that they get: on which side of it, for how long, and with what outcome.

use super::{Change, Changes, Field, Grace, Mode, Observed, Record, token};
use std::fmt;

/// What an acquire asks for. `H` is the holder's name: borrowed while the command runs, owned while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<H> {
    pub holder: H,
    pub side: Side,
    pub lease: Lease,
    pub fenced: bool,
}

impl<H> Wish<H> {
    /// The same wish, with the holder's name kept in another way.
    pub fn with_holder<O>(&self, holder: O) -> Wish<O> {
        Wish { holder, side: self.side, lease: self.lease, fenced: self.fenced }
    }
}

/// Whether a client that came earlier waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    Nobody,
    Someone,
}

/// What a kind of lock answers to an acquire, unless it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted(Effect),
    Busy(Busy),
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    pub changes: Changes,
    /// The fencing token, if one was asked for.
    pub token: Option<i64>,
    /// Whether the next waiter may share the lock with this holder.
    pub leaves_room: bool,
}

/// Not granted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The ms for which the answer stays the same, unless a client changes the lock: 0 if it has just ended, -1 if it has
    /// no expiry.
    pub left_ms: i64,
    /// Whether a reader asks to write: as a waiter it would wait for itself.
    pub waits_for_itself: bool,
    pub obstacle: Obstacle,
}

/// What is in the way of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Holders of the lock, or waiters for it.
    Others,
    /// Nothing but the grace.
    Grace {
        /// Whether the lock is this holder's already, so it passes the waiters.
        reenters: bool,
    },
}

/// The outcome of an acquire. How the client gets it depends on how it waited; the words are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the fencing token, if one was asked for.
    Granted {
        token: Option<i64>,
    },
    /// Not granted at once, or not within the time of the wait. With the time left of the lock's lease.
    Busy {
        left_ms: i64,
    },
    Refused(Refusal),
    /// The client waited on a server that does not have the lock's slot any more.
    SlotMoved,
    /// The client waited on a server that has become a replica.
    NowReplica,
    /// Another request of the same holder for the same lock took its place in the queue.
    Replaced,
    /// The work that the client asked for was done by another holder, and its answer is stored.
    Answered,
}

/// What a release asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The side to release; None is the one side this holder has.
    pub side: Option<Side>,
    /// The lease with which the remaining holds restart.
    pub lease: Option<Lease>,
    /// Whether to release every hold, instead of one.
    pub all: bool,
}

impl Release {
    /// The number of holds that this release leaves of `holds`, which is at least one.
    pub(super) fn left_of(self, holds: i64) -> i64 {
        if self.all { 0 } else { holds.saturating_sub(1) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// This holder holds nothing here.
    NotHeld,
    /// The lock is still held: by this holder, or by other readers.
    StillHeld,
    /// The lock is free; or a writer left, and its reads stay; or a permit was released.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    Restarted,
    /// This holder holds nothing here.
    NotHeld,
}

/// An acquire, and the state of the lock that it meets.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub observed: Observed,
    pub lease: Lease,
    pub fenced: bool,
    /// When the lease would end.
    pub end: UnixMs,
    pub grace: Grace,
    pub now: UnixMs,
}

impl Asked {
    /// A grant by these changes and, if it is fenced, the change of its token. The token is read before any write, so that a
    /// counter that cannot count refuses the grant.
    pub fn granted(
        self,
        record: &impl Record,
        [count, expire, hold]: [Option<Change>; 3],
        leaves_room: bool,
    ) -> Result<Effect, Refusal> {
        let change = self.fenced.then(|| token::next(record)).transpose()?;
        let token = change.and_then(Change::token);
        Ok(Effect { changes: Changes::of([count, expire, hold, change]), token, leaves_room })
    }
}

/// One hold more; refused if the count cannot grow.
pub(super) fn one_more(count: i64) -> Result<i64, Refusal> {
    count.checked_add(1).ok_or(Refusal::TooManyHolds)
}

/// Why a command that was well-formed is not carried out. A refusal changes nothing and replicates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is neither a hash nor a sorted set, or one that no lock command wrote.
    WrongType,
    /// A command for another kind on a read-write lock.
    HoldsReadWrite,
    /// The same on a plain lock.
    HoldsPlain,
    /// The same on a key with permits.
    HoldsPermits,
    /// Now plus the lease is more than the server can store.
    LeaseTooLong,
    /// The same of an answer's end.
    KeepTooLong,
    /// The lease, or a writer's leases together, are longer than the grace.
    LeaseAboveGrace,
    /// LEASE on a read release.
    LeaseOnRead,
    /// This holder has both sides, and the release names neither.
    WhichSide,
    /// One more hold, or work on all holds, would exceed the limits.
    TooManyHolds,
    /// A reader of this lock asks to write, and would wait for itself.
    Deadlock,
    /// The fencing counter is not an integer, or cannot grow.
    BadToken,
    /// In a cluster, the slot is on its way from one node to another, and the counter or the answer may be at the other one.
    KeysOnTheirWay,
    /// In a cluster, the keys derived from this name are in another slot.
    OtherSlot,
}

/// A moment by the server's clock, which is passed in wherever it is needed.
pub type UnixMs = i64;

/// A requested time to live: at least 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ms: i64,
}

impl Lease {
    #[must_use]
    pub fn from_ms(ms: i64) -> Option<Self> {
        (ms >= 1).then_some(Self { ms })
    }

    #[must_use]
    pub fn ms(self) -> i64 {
        self.ms
    }

    /// The moment a lease that starts at `start` ends.
    ///
    /// # Errors
    /// [`Refusal::LeaseTooLong`] where the server could not store that moment.
    pub fn end(self, start: UnixMs) -> Result<UnixMs, Refusal> {
        start.checked_add(self.ms).ok_or(Refusal::LeaseTooLong)
    }
}

/// When a key ends by itself. `Never` is later than any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    At(UnixMs),
    Never,
}

impl Expiry {
    /// The time left, as PTTL gives it: never negative, -1 for no expiry.
    #[must_use]
    pub fn left_ms(self, now: UnixMs) -> i64 {
        match self {
            Self::At(end) => end.saturating_sub(now).max(0),
            Self::Never => -1,
        }
    }
}

/// The side of a lock that a hold is on. A plain lock has only one. The methods below answer what the code for waiting must
/// know of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Plain,
    Read,
    Write,
    /// One of so many permits.
    Permit(Limit),
}

const _: () = assert!(size_of::<Side>() == 4, "each waiter has a side");

/// How many permits may be taken, the one that is asked for included. Kept in as few bytes as it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Limit([u8; 3]);

impl Limit {
    pub const MAX: i64 = 100_000;

    #[must_use]
    pub const fn new(limit: i64) -> Option<Self> {
        match limit.to_le_bytes() {
            [low, middle, high, ..] if limit >= 1 && limit <= Self::MAX => Some(Self([low, middle, high])),
            _ => None,
        }
    }

    #[must_use]
    pub fn get(self) -> usize {
        let Self([low, middle, high]) = self;
        u32::from_le_bytes([low, middle, high, 0]).try_into().unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.get())
    }
}

impl Side {
    /// The field that counts holds of this side.
    #[must_use]
    pub fn field(self) -> Field {
        match self {
            Self::Plain | Self::Read | Self::Permit(_) => Field::Holder,
            Self::Write => Field::HolderWrite,
        }
    }

    /// The `mode` of a lock that begins with a hold of this side; None if it is no read-write lock.
    #[must_use]
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Plain | Self::Permit(_) => None,
            Self::Read => Some(Mode::Read),
            Self::Write => Some(Mode::Write),
        }
    }

    /// Whether others may have a hold of this side, too, each with a lease of its own.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Read | Self::Permit(_))
    }

    /// Whether a waiter for this side keeps the waiters behind it from sharing the lock with its holders. A request for a
    /// permit may allow fewer holders than there are now.
    #[must_use]
    pub fn ends_sharing(self) -> bool {
        matches!(self, Self::Write | Self::Permit(_))
    }

    /// For permits: how many may be taken.
    #[must_use]
    pub fn limit(self) -> Option<Limit> {
        match self {
            Self::Permit(limit) => Some(limit),
            Self::Plain | Self::Read | Self::Write => None,
        }
    }

    /// When this holder's lease of this side ends; of read holds, each with its own lease, the end of the last one. None if it
    /// has no hold of this side, or one without an end.
    pub fn lease_end(self, record: &impl Record) -> Option<UnixMs> {
        let expiry = match (record.observe().ok()?, self) {
            (Observed::Mine { .. }, Self::Plain) => record.expiry(),
            (Observed::ReadWrite(lock), Self::Write) if lock.writes > 0 => record.expiry(),
            (Observed::ReadWrite(lock), Self::Read) if lock.reads > 0 => record.read_hold_end(lock.reads)?,
            // Includes a permit that has ended: the caller compares its end with the time.
            (Observed::Permits, Self::Permit(_)) => Expiry::At(record.permits(UnixMs::MIN, 0).mine?),
            _ => return None,
        };
        match expiry {
            Expiry::At(end) => Some(end),
            Expiry::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_at_least_one_ms_and_ends_within_the_servers_time() {
        assert_eq!(Lease::from_ms(0), None);
        assert_eq!(Lease::from_ms(-1), None);
        let longest = Lease::from_ms(i64::MAX).unwrap();
        assert_eq!(longest.end(0), Ok(i64::MAX));
        assert_eq!(longest.end(1), Err(Refusal::LeaseTooLong));
    }

    #[test]
    fn a_limit_is_between_one_and_its_most() {
        for limit in [1, 2, 255, 256, 65_536, 99_999, 100_000] {
            assert_eq!(Limit::new(limit).map(Limit::get), usize::try_from(limit).ok());
        }
        for limit in [i64::MIN, -1, 0, 100_001, 1 << 32, i64::MAX] {
            assert_eq!(Limit::new(limit), None, "{limit}");
        }
    }

    #[test]
    fn never_is_later_than_any_moment_and_nothing_left_is_zero() {
        assert!(Expiry::Never > Expiry::At(i64::MAX));
        assert_eq!(Expiry::Never.left_ms(5), -1);
        assert_eq!(Expiry::At(7).left_ms(5), 2);
        assert_eq!(Expiry::At(5).left_ms(7), 0);
    }
}
