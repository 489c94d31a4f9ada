//! RELEASE: gives a hold back, on whichever kind of lock the key holds.

use super::{Decision, Lease, Observed, Record, Refusal, Side, UnixMs, exclusive, read_write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The side to release; None is the one side this holder has.
    pub side: Option<Side>,
    /// The lease that holds which remain restart at.
    pub lease: Option<Lease>,
    /// Every hold, instead of one.
    pub all: bool,
}

impl Release {
    /// What this release leaves of `holds`, of which there is at least one.
    pub(super) fn left_of(self, holds: i64) -> i64 {
        if self.all { 0 } else { holds.saturating_sub(1) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// This holder holds nothing here.
    NotHeld,
    /// Still held: by this holder, or by other readers.
    StillHeld,
    /// The lock is free; or a writer left, and its reads stay.
    Free,
}

/// # Errors
/// Refused on another kind than the one named, and where a limit is met.
pub fn release(record: &impl Record, want: Release, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    // A lease that cannot be stored is an error whatever the lock holds, so that a client's bug shows at once.
    if let Some(lease) = want.lease {
        lease.end(now)?;
    }
    if want.side == Some(Side::Read) && want.lease.is_some() {
        return Err(Refusal::LeaseOnRead);
    }
    match record.observe()? {
        Observed::Mine { .. } | Observed::Others if want.side.is_some() => Err(Refusal::HoldsPlain),
        Observed::Mine { holds } => exclusive::release(holds, want, now),
        Observed::Free | Observed::Others => Ok(Decision::unchanged(Released::NotHeld)),
        Observed::ReadWrite(lock) => read_write::release(record, lock, want, now),
    }
}
