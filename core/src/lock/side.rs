//! The side of a lock that a hold is on, and what waiting must know of it: nobody outside of this folder asks which one
//! it is.

use super::{Expiry, Field, Mode, Observed, Record, UnixMs};

/// A plain lock has but one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Plain,
    Read,
    Write,
}

/// How a holder has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Of this side.
    pub holds: i64,
    /// When the lease ends: the lock's, or a read hold's own.
    pub end: UnixMs,
}

impl Side {
    /// The field that counts holds of this side.
    #[must_use]
    pub fn field(self) -> Field {
        match self {
            Self::Plain | Self::Read => Field::Holder,
            Self::Write => Field::HolderWrite,
        }
    }

    /// The `mode` of a lock that begins with a hold of this side; None for a plain lock.
    #[must_use]
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Plain => None,
            Self::Read => Some(Mode::Read),
            Self::Write => Some(Mode::Write),
        }
    }

    /// Whether others may have a hold of this side, too, each with a lease of its own.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self == Self::Read
    }

    /// Whether a waiter for this side keeps those behind it from sharing the lock with those who have it.
    #[must_use]
    pub fn ends_sharing(self) -> bool {
        self == Self::Write
    }

    /// How this holder has this side of the lock, with its last hold's lease.
    pub fn held(self, record: &impl Record) -> Option<Held> {
        let (holds, expiry) = match (record.observe().ok()?, self) {
            (Observed::Mine { holds }, Self::Plain) => (holds, record.expiry()),
            (Observed::ReadWrite(lock), Self::Write) => (lock.writes, record.expiry()),
            (Observed::ReadWrite(lock), Self::Read) => (lock.reads, record.read_hold_end(lock.reads)?),
            _ => return None,
        };
        let Expiry::At(end) = expiry else { return None };
        Some(Held { holds, end })
    }
}
