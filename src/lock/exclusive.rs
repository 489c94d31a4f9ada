//! Plain locks: one holder, who may hold more than once.

use super::{
    Acquire, Acquired, Decision, Effect, Expiry, Field, Lease, Observed, Record, Refusal, Release, Released, Renewed,
    UnixMs, Unlock, one_more, token_for,
};

/// Grants a lock that is free or this holder's own; the lease restarts.
///
/// # Errors
/// Refused on a read-write lock, and where a limit is met.
pub fn acquire(record: &impl Record, want: Acquire, now: UnixMs) -> Result<Decision<Acquired>, Refusal> {
    let end = want.lease.end(now)?;
    let held = match record.observe()? {
        Observed::Free => 0,
        Observed::Mine { holds } => holds,
        Observed::Others { expiry } => return Ok(busy(expiry, now)),
        Observed::ReadWrite(_) => return Err(Refusal::HoldsReadWrite),
    };
    let count = Effect::Count { field: Field::Holder, by: 1, makes: one_more(held)? };
    let token = token_for(record, want)?;
    Ok(Decision {
        answer: Acquired::Granted { token },
        effects: [
            Some(count),
            Some(Effect::ExpireAt(end)),
            token.map(|makes| Effect::CountToken { makes }),
            None,
            None,
        ],
    })
}

/// Gives back one of `holds`, or all of them; the last one frees the lock.
pub(super) fn release(holds: i64, want: Release, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    let left = want.left_of(holds);
    if left > 0 {
        return count_down(Field::Holder, left, want.lease, now);
    }
    Ok(Decision {
        answer: Released::Free,
        effects: [Some(Effect::Delete), Some(Effect::Publish(Unlock::Plain)), None, None, None],
    })
}

/// Restarts the lease of a lock that this holder has.
pub(super) fn renew(end: UnixMs) -> Decision<Renewed> {
    Decision { answer: Renewed::Restarted, effects: [Some(Effect::ExpireAt(end)), None, None, None, None] }
}

/// One hold less, of several: the lease restarts if the release says so, and stays as it is otherwise.
pub(super) fn count_down(
    field: Field,
    left: i64,
    lease: Option<Lease>,
    now: UnixMs,
) -> Result<Decision<Released>, Refusal> {
    let restart = lease.map(|lease| lease.end(now)).transpose()?;
    Ok(Decision {
        answer: Released::StillHeld,
        effects: [Some(Effect::Count { field, by: -1, makes: left }), restart.map(Effect::ExpireAt), None, None, None],
    })
}

pub(super) fn busy(expiry: Expiry, now: UnixMs) -> Decision<Acquired> {
    Decision::unchanged(Acquired::Busy { left_ms: expiry.left_ms(now) })
}
