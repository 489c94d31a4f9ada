//! Plain locks: one holder, who may hold more than once.

use super::acquire::Asked;
use super::{
    Acquired, CompanionEffect, Decision, Field, KeyEffect, Lease, Observed, Record, Refusal, Release, Released,
    Renewed, UnixMs, Unlock, one_more, token_for,
};

/// Grants a lock that is free or this holder's own; the lease restarts.
///
/// # Errors
/// Refused on a read-write lock, and where a limit is met.
pub(super) fn acquire(record: &impl Record, asked: Asked) -> Result<Decision<Acquired>, Refusal> {
    let Asked { observed, want, end, .. } = asked;
    let held = match observed {
        Observed::Free => 0,
        Observed::Mine { holds } => holds,
        Observed::Others => return Ok(Decision::unchanged(Acquired::Busy)),
        Observed::ReadWrite(_) => return Err(Refusal::HoldsReadWrite),
    };
    let count = KeyEffect::Count { field: Field::Holder, by: 1, makes: one_more(held)? };
    let token = token_for(record, want)?;
    let count_token = token.map(|makes| CompanionEffect::CountToken { makes });
    Ok(Decision::new(
        Acquired::Granted { token },
        [Some(count), Some(KeyEffect::ExpireAt(end)), None],
        [count_token, None],
    ))
}

/// Gives back one of `holds`, or all of them; the last one frees the lock.
pub(super) fn release(holds: i64, want: Release, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    let left = want.left_of(holds);
    if left > 0 {
        return count_down(Field::Holder, left, want.lease, now);
    }
    let publish = CompanionEffect::Publish(Unlock::Plain);
    Ok(Decision::new(Released::Free, [Some(KeyEffect::Delete), None, None], [Some(publish), None]))
}

/// Restarts the lease of a lock that this holder has.
pub(super) fn renew(end: UnixMs) -> Decision<Renewed> {
    Decision::new(Renewed::Restarted, [Some(KeyEffect::ExpireAt(end)), None, None], [None; 2])
}

/// One hold less, of several: the lease restarts if the release says so, and stays as it is otherwise.
pub(super) fn count_down(
    field: Field,
    left: i64,
    lease: Option<Lease>,
    now: UnixMs,
) -> Result<Decision<Released>, Refusal> {
    let restart = lease.map(|lease| lease.end(now)).transpose()?;
    let count = KeyEffect::Count { field, by: -1, makes: left };
    Ok(Decision::new(Released::StillHeld, [Some(count), restart.map(KeyEffect::ExpireAt), None], [None; 2]))
}
