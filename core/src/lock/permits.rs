//! Permits: as many holders at once as each request allows.
//!
//! A holder has one permit at most, so there is nothing to count: to ask again restarts its lease, and a request that was
//! sent twice is granted once. A permit is its own end, in a sorted set, and has ended when that is past; so what is free is
//! never stored, and cannot be wrong. The key ends with the last of them.
//!
//! What has ended stays as an entry until the next change takes it along, so many at a time that a command stays short.

use super::change::Ended;
use super::request::{Ahead, Asked, Busy, Effect, Limit, Obstacle, Released, Renewed, Verdict};
use super::{Change, Decision, Expiry, Observed, Record, Refusal, Side, UnixMs};

/// The latest end that the scores of a sorted set tell from all others.
pub const PERMIT_END_MAX: UnixMs = 1 << 53;

/// The most entries of ended permits that one step drops.
pub(super) const DROPPED_MAX: usize = 1_000;

/// How far the expiry of a key with permits may be from the end of the last one. The module makes them the same, but a key
/// that moves between servers may take its expiry along as a time left.
const EXPIRY_APART_MS: i64 = 60_000;

/// The permits of one key, as one holder sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// When this holder's ends, unless it has ended.
    pub mine: Option<UnixMs>,
    /// How many have not ended, this holder's included.
    pub taken: usize,
    /// How many others have ended and still have an entry.
    pub ended: usize,
    /// When the first of those ends that have not ended.
    pub first_end: Option<UnixMs>,
    /// When the last of the others ends, unless all have ended.
    pub others_end: Option<UnixMs>,
}

/// Whether a sorted set holds permits: by its lowest and its highest score, and when the key ends. Anybody may have sorted
/// sets, and of a stranger's nothing may be dropped.
#[must_use]
pub fn are_permits(lowest: f64, highest: f64, expiry: Expiry) -> bool {
    let last_end = end_of_score(highest).filter(|_| end_of_score(lowest).is_some());
    match (last_end, expiry) {
        (Some(last_end), Expiry::At(at)) => at.abs_diff(last_end) <= EXPIRY_APART_MS.unsigned_abs(),
        _ => false,
    }
}

/// The score of a permit that ends then.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "no permit ends as late as that")]
pub fn score_of_end(end: UnixMs) -> f64 {
    end as f64
}

/// The end that a score says; None if it says none.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a whole number up to 2^53 is exact")]
pub fn end_of_score(score: f64) -> Option<UnixMs> {
    let is_end = score.fract() == 0.0 && (1.0..=PERMIT_END_MAX as f64).contains(&score);
    is_end.then_some(score as UnixMs)
}

/// Grants a permit if fewer are taken than the request allows and no waiter is passed over; or restarts the lease of the
/// one that this holder has.
///
/// # Errors
/// Refused on a lock of another kind, and where a limit is met.
pub(super) fn acquire(record: &impl Record, limit: Limit, ahead: Ahead, asked: Asked) -> Result<Verdict, Refusal> {
    if asked.end > PERMIT_END_MAX {
        return Err(Refusal::LeaseTooLong);
    }
    let permits = match asked.observed {
        Observed::Free => Permits::default(),
        Observed::Permits => record.permits(asked.now),
        Observed::Mine { .. } | Observed::Others => return Err(Refusal::HoldsPlain),
        Observed::ReadWrite(_) => return Err(Refusal::HoldsReadWrite),
    };
    let reenters = permits.mine.is_some();
    let is_free = ahead == Ahead::Nobody && permits.taken < limit.get();
    let mut obstacle = Obstacle::Others;
    if reenters || is_free {
        let effect = grant(record, permits, limit, asked)?;
        if !asked.grace.is_running() {
            return Ok(Verdict::Granted(effect));
        }
        obstacle = Obstacle::Grace { reenters };
    }
    let first_end = permits.first_end.filter(|_| obstacle == Obstacle::Others).unwrap_or(UnixMs::MIN);
    let left_ms = asked.grace.left_of(Expiry::At(first_end).left_ms(asked.now));
    Ok(Verdict::Busy(Busy { left_ms, waits_for_itself: false, obstacle }))
}

/// The grant of a permit that is to be had.
///
/// # Errors
/// Where a counter of tokens cannot count.
fn grant(record: &impl Record, permits: Permits, limit: Limit, asked: Asked) -> Result<Effect, Refusal> {
    if asked.observed == Observed::Free {
        let begin = Change::Begin { side: Side::Permit(limit), end: asked.end };
        return asked.granted(record, [Some(begin), None, None], true);
    }
    asked.granted(record, set(record, permits, asked.end), true)
}

/// The grant of the first permit of all.
///
/// # Errors
/// As above.
pub(super) fn begin(record: &impl Record, limit: Limit, asked: Asked) -> Result<Effect, Refusal> {
    grant(record, Permits::default(), limit, Asked { observed: Observed::Free, ..asked })
}

/// This holder's permit ends then, beside those of others.
fn set(record: &impl Record, permits: Permits, end: UnixMs) -> [Option<Change>; 3] {
    let permit = match permits.mine {
        Some(mine) if mine == end => Change::PermitStays,
        mine => Change::SetPermit { end, again: mine.is_some() },
    };
    let expire = expire_at(record, permits.others_end.map_or(end, |others| others.max(end)));
    // What is in the key comes first.
    match permit {
        Change::PermitStays => [drop_ended(permits), expire, Some(permit)],
        permit => [Some(permit), drop_ended(permits), expire],
    }
}

/// Gives this holder's permit back.
pub(super) fn release(record: &impl Record, now: UnixMs) -> Decision<Released> {
    let permits = record.permits(now);
    if permits.mine.is_none() {
        return Decision::unchanged(Released::NotHeld);
    }
    let changes = match permits.others_end {
        None => [Some(Change::Delete), None, None],
        Some(end) => [Some(Change::DropPermit), drop_ended(permits), expire_at(record, end)],
    };
    Decision::new(Released::Free, changes)
}

/// Restarts the lease of this holder's permit. One that has ended may be another's by now.
///
/// # Errors
/// [`Refusal::LeaseTooLong`] where a score could not tell its end.
pub(super) fn renew(record: &impl Record, end: UnixMs, now: UnixMs) -> Result<Decision<Renewed>, Refusal> {
    if end > PERMIT_END_MAX {
        return Err(Refusal::LeaseTooLong);
    }
    let permits = record.permits(now);
    Ok(match permits.mine {
        None => Decision::unchanged(Renewed::NotHeld),
        Some(_) => Decision::new(Renewed::Restarted, set(record, permits, end)),
    })
}

/// The key ends with the last permit.
fn expire_at(record: &impl Record, end: UnixMs) -> Option<Change> {
    (record.expiry() != Expiry::At(end)).then_some(Change::ExpireAt(end))
}

fn drop_ended(permits: Permits) -> Option<Change> {
    let count = Ended::try_from(permits.ended.min(DROPPED_MAX)).unwrap_or(Ended::MAX);
    (count > 0).then_some(Change::DropEnded { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ends_and_an_expiry_near_the_last_are_permits() {
        let at = |ms| Expiry::At(ms);
        assert!(are_permits(5.0, 9_000.0, at(9_000)));
        assert!(are_permits(5.0, 9_000.0, at(69_000)));
        assert!(!are_permits(5.0, 9_000.0, at(69_001)));
        assert!(are_permits(5.0, 90_000.0, at(30_000)));
        assert!(!are_permits(5.0, 90_000.0, at(29_999)));
        assert!(!are_permits(5.0, 9_000.0, Expiry::Never));
        assert!(!are_permits(5.0, 9_000.0, at(i64::MIN)));
        for foreign in [0.0, -1.0, 0.5, 5.5, 9_007_199_254_740_994.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(!are_permits(foreign, 9_000.0, at(9_000)), "{foreign}");
            assert!(!are_permits(5.0, foreign, at(9_000)), "{foreign}");
        }
        assert_eq!(end_of_score(9_007_199_254_740_992.0), Some(PERMIT_END_MAX));
    }
}
