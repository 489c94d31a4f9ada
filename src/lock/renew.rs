//! RENEW: restarts the lease of what this holder holds, on whichever kind of lock the key holds.

use super::{Decision, Lease, Observed, Record, Refusal, UnixMs, exclusive, read_write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    Restarted,
    /// This holder holds nothing here.
    NotHeld,
}

/// # Errors
/// Refused where a limit is met.
pub fn renew(record: &impl Record, lease: Lease, now: UnixMs) -> Result<Decision<Renewed>, Refusal> {
    let end = lease.end(now)?;
    match record.observe()? {
        Observed::Free | Observed::Others => Ok(Decision::unchanged(Renewed::NotHeld)),
        Observed::Mine { .. } => Ok(exclusive::renew(end)),
        Observed::ReadWrite(lock) => read_write::renew(record, lock, end, now),
    }
}
