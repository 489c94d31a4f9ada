//! ACQUIRE, RELEASE, RENEW and ANSWER: each looks at what the key holds, and applies the rules of that kind of lock. And the
//! hand-over: a release and the next holder's grant as one step.
//!
//! While a grace runs, no holder is granted the lock for any reason. Everything else is decided as usual, so a wrong request is
//! refused at once.
//!
//! No newcomer overtakes a waiter: a lock that is free to the newcomer is free to the waiter. Only a client that already
//! holds the lock is granted it at once: the waiters in front wait for this client, and behind them it would wait for them.

use super::request::{Ahead, Asked, Busy, Effect, Obstacle, Release, Released, Renewed, Verdict, Wish};
use super::{
    Change, Changes, Decision, Expiry, Grace, Lease, Mode, Observed, Permits, Record, Refusal, Side, UnixMs, Unlock,
    permits, plain, read_write,
};

/// Grants a hold, if the lock allows it and no waiter is passed over.
///
/// # Errors
/// Refused on a lock of another kind, and where a limit is met.
#[allow(clippy::inline_always, reason = "a verdict is large, and its way out of here costs more than what is decided")]
#[inline(always)]
pub fn acquire<H>(
    record: &impl Record,
    wish: &Wish<H>,
    ahead: Ahead,
    grace: Grace,
    now: UnixMs,
) -> Result<Verdict, Refusal> {
    let end = end_of_lease(record, wish, grace, now)?;
    let observed = if wish.side == Side::Plain { record.observe_plain()? } else { record.observe()? };
    let asked = Asked { observed, lease: wish.lease, fenced: wish.fenced, end, grace, now };
    if let Side::Permit(limit) = wish.side {
        return permits::acquire(record, limit, ahead, asked);
    }
    let passes_by = match observed {
        Observed::Free => true,
        Observed::ReadWrite(lock) => wish.side == Side::Read && lock.reads == 0 && lock.writes == 0,
        Observed::Mine { .. } | Observed::Others | Observed::Permits => false,
    };
    let may_ask = ahead == Ahead::Nobody || !passes_by;
    let effect = if may_ask { grant(record, wish.side, asked)? } else { None };
    let obstacle = match effect {
        Some(effect) if !grace.is_running() => return Ok(Verdict::Granted(effect)),
        Some(_) => Obstacle::Grace { reenters: !passes_by },
        None => Obstacle::Others,
    };
    busy(record, wish.side, &asked, obstacle)
}

#[inline]
fn busy(record: &impl Record, side: Side, asked: &Asked, obstacle: Obstacle) -> Result<Verdict, Refusal> {
    let expiry = record.expiry();
    // `observe_plain` takes a lone `mode` for a plain lock of another holder. No client leaves one without an expiry.
    if side == Side::Plain && expiry == Expiry::Never && matches!(record.observe()?, Observed::ReadWrite(_)) {
        return Err(Refusal::HoldsReadWrite);
    }
    let reads = matches!(asked.observed, Observed::ReadWrite(lock) if lock.mode == Mode::Read && lock.reads > 0);
    let left_ms = asked.grace.left_of(expiry.left_ms(asked.now));
    Ok(Verdict::Busy(Busy { left_ms, waits_for_itself: side == Side::Write && reads, obstacle }))
}

/// # Errors
/// The refusals that do not depend on what the lock holds.
fn end_of_lease<H>(record: &impl Record, wish: &Wish<H>, grace: Grace, now: UnixMs) -> Result<UnixMs, Refusal> {
    let end = wish.lease.end(now)?;
    grace.check(end, now)?;
    if wish.side == Side::Read {
        read_write::reach_derived_keys(record)?;
    }
    Ok(end)
}

#[allow(clippy::inline_always, reason = "as for acquire")]
#[inline(always)]
fn grant(record: &impl Record, side: Side, asked: Asked) -> Result<Option<Effect>, Refusal> {
    match side {
        Side::Plain => plain::acquire(record, asked),
        Side::Read => read_write::acquire_read(record, asked),
        Side::Write => read_write::acquire_write(record, asked),
        Side::Permit(limit) => permits::grant(record, Permits::default(), limit, asked).map(Some),
    }
}

/// Releases one hold of this holder, or all.
///
/// # Errors
/// Refused on a lock of another kind than the command names, and where a limit is met.
pub fn release(record: &impl Record, want: Release, grace: Grace, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    // A lease that cannot be stored is an error whatever the lock holds, so that a client's bug shows at once.
    if let Some(lease) = want.lease {
        grace.check(lease.end(now)?, now)?;
    }
    if want.side == Some(Side::Read) && want.lease.is_some() {
        return Err(Refusal::LeaseOnRead);
    }
    match (record.observe()?, want.side) {
        (Observed::Mine { .. } | Observed::Others, Some(Side::Read | Side::Write | Side::Permit(_))) => {
            Err(Refusal::HoldsPlain)
        }
        (Observed::Permits, Some(Side::Plain | Side::Read | Side::Write)) => Err(Refusal::HoldsPermits),
        (Observed::Mine { holds }, _) => plain::release(holds, want, now),
        (Observed::Free | Observed::Others, _) => Ok(Decision::unchanged(Released::NotHeld)),
        (Observed::ReadWrite(lock), _) => read_write::release(record, lock, want, now),
        (Observed::Permits, _) => Ok(permits::release(record, now)),
    }
}

/// Ends all holds of this holder, and stores the answer of its work. The decision's answer: whether it held the lock.
///
/// # Errors
/// Refused on a lock of another kind, where something else is stored under the answer's key, and where a limit is met.
pub fn answer(record: &impl Record, keep: Lease, now: UnixMs) -> Result<Decision<bool>, Refusal> {
    let end = keep.end(now).map_err(|_| Refusal::KeepTooLong)?;
    match record.observe()? {
        Observed::Mine { .. } => {
            record.with_answer(|_| ())?;
            let changes = [Change::Delete, Change::StoreAnswer { end }, Change::Publish(Unlock::Plain)];
            Ok(Decision::new(true, changes.map(Some)))
        }
        Observed::Free | Observed::Others => Ok(Decision::unchanged(false)),
        Observed::ReadWrite(_) => Err(Refusal::HoldsReadWrite),
        Observed::Permits => Err(Refusal::HoldsPermits),
    }
}

/// Restarts the lease of everything that this holder holds.
///
/// # Errors
/// Refused where a limit is met.
pub fn renew(record: &impl Record, lease: Lease, grace: Grace, now: UnixMs) -> Result<Decision<Renewed>, Refusal> {
    let end = lease.end(now)?;
    grace.check(end, now)?;
    match record.observe()? {
        Observed::Free | Observed::Others => Ok(Decision::unchanged(Renewed::NotHeld)),
        Observed::Mine { .. } => Ok(plain::renew(end)),
        Observed::ReadWrite(lock) => read_write::renew(record, lock, end, now),
        Observed::Permits => permits::renew(record, end, now),
    }
}

/// The changes that are written in one step, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The releasing holder's changes.
    pub released: Changes,
    /// The next holder's grant.
    pub granted: Effect,
}

/// Hands over a lock that `released` would free. None if the next holder cannot acquire it even then.
pub fn hand_over<H>(
    record: &impl Record,
    released: Changes,
    next: &Wish<H>,
    grace: Grace,
    now: UnixMs,
) -> Option<HandOver> {
    if grace.is_running() {
        return None;
    }
    let end = end_of_lease(record, next, grace, now).ok()?;
    let asked = Asked { observed: Observed::Free, lease: next.lease, fenced: next.fenced, end, grace, now };
    let granted = grant(record, next.side, asked).ok()??;
    // The lock is not free, so a waiter of Redisson's can act only in two cases: readers may join a new reader, and a
    // client that sleeps until the old lease ends must learn of a new lease that ends earlier.
    let can_act = next.side == Side::Read || granted.changes.ends_before(record.expiry());
    let released = if can_act { released } else { released.unpublished() };
    Some(HandOver { released, granted })
}
