//! Plain locks: one holder, which may hold more than once.

use super::request::{Asked, Effect, Release, Released, Renewed, one_more};
use super::{Change, Decision, Field, Lease, Observed, Record, Refusal, Side, UnixMs, Unlock};

/// Grants a lock that is free or this holder's own; the lease restarts. None if it is busy.
///
/// # Errors
/// Refused on a read-write lock, and where a limit is met.
#[inline]
pub(super) fn acquire(record: &impl Record, asked: Asked) -> Result<Option<Effect>, Refusal> {
    let end = asked.end;
    let (count, expire) = match asked.observed {
        Observed::Free => (Change::Begin { side: Side::Plain, end }, None),
        Observed::Mine { holds } => {
            let count = Change::Count { field: Field::Holder, by: 1, makes: one_more(holds)? };
            (count, Some(Change::ExpireAt(end)))
        }
        Observed::Others => return Ok(None),
        Observed::ReadWrite(_) => return Err(Refusal::HoldsReadWrite),
        Observed::Permits => return Err(Refusal::HoldsPermits),
    };
    asked.granted(record, [Some(count), expire, None], false).map(Some)
}

/// Releases one of `holds`, or all of them; the last one frees the lock.
pub(super) fn release(holds: i64, want: Release, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    let left = want.left_of(holds);
    if left > 0 {
        return count_down(Field::Holder, left, want.lease, now);
    }
    Ok(Decision::new(Released::Free, [Some(Change::Delete), Some(Change::Publish(Unlock::Plain))]))
}

/// Restarts the lease of a lock that this holder has.
pub(super) fn renew(end: UnixMs) -> Decision<Renewed> {
    Decision::new(Renewed::Restarted, [Some(Change::ExpireAt(end))])
}

/// Drops one of several holds. The lease restarts if the release asks for it; otherwise it stays unchanged.
pub(super) fn count_down(
    field: Field,
    left: i64,
    lease: Option<Lease>,
    now: UnixMs,
) -> Result<Decision<Released>, Refusal> {
    let restart = lease.map(|lease| lease.end(now)).transpose()?;
    let count = Change::Count { field, by: -1, makes: left };
    Ok(Decision::new(Released::StillHeld, [Some(count), restart.map(Change::ExpireAt)]))
}
