//! Permits: as many holders at once as each request allows.
//!
//! A holder has one permit at most, so there is nothing to count: to ask again restarts its lease, and a request that was
//! sent twice is granted once. A permit is its own end, in a sorted set, and has ended when that is past; so what is free is
//! never stored, and cannot be wrong. The key ends with the last of them; if a client removes that one, the key's expiry is too
//! late until the next change.
//!
//! What has ended stays as an entry until the next change takes it along, so many at a time that a command stays short.

use super::change::Ended;
use super::request::{Ahead, Asked, Busy, Effect, Limit, Obstacle, Released, Renewed, Verdict};
use super::{Change, Decision, Expiry, Observed, Record, Refusal, Side, UnixMs};

/// The latest end that the scores of a sorted set tell from all others.
pub const PERMIT_END_MAX: UnixMs = 1 << 53;

/// An end that no server's clock gives: in November 2004.
const PERMIT_END_MIN: UnixMs = 1 << 40;

/// The most entries of ended permits that one step drops.
const DROPPED_MAX: usize = 1_000;

/// The permits of one key, as one holder sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// When this holder's ends, unless it has ended.
    pub mine: Option<UnixMs>,
    /// How many have not ended, this holder's included. With more than [`DROPPED_MAX`] that have ended, it may stop at the
    /// number that was asked for.
    pub taken: usize,
    /// How many others have ended and still have an entry. It may stop above [`DROPPED_MAX`].
    pub ended: usize,
    /// When the first of those ends that have not ended.
    pub first_end: Option<UnixMs>,
    /// When the last of the others ends, unless all have ended.
    pub others_end: Option<UnixMs>,
}

/// Whether a sorted set with these scores at its ends holds permits. Other programs have sorted sets, and of theirs nothing
/// may be dropped. The key's expiry does not matter: it is that of a permit that a client may have removed.
#[must_use]
pub fn are_permits(lowest: f64, highest: f64) -> bool {
    [lowest, highest].into_iter().all(|score| end_of_score(score).is_some_and(|end| end >= PERMIT_END_MIN))
}

/// Whether a sorted set may be one of permits that other scores were added to: by its first score from [`lowest_score`] up.
/// It may be seen and broken.
#[must_use]
pub fn may_have_been_permits(first: f64) -> bool {
    (lowest_score()..=score_of_end(PERMIT_END_MAX)).contains(&first)
}

/// The lowest score that a permit may have.
#[must_use]
pub fn lowest_score() -> f64 {
    score_of_end(PERMIT_END_MIN)
}

/// Counts the entries of a key, of which there are `length`: how many are alive, and how many have ended, by a step for
/// each. If thousands have ended, no more of them are counted than are dropped at once. Beyond that, the ones alive are
/// counted from the other end, up to `most`.
#[must_use]
pub fn count_entries<A: Iterator>(
    length: usize,
    ended: impl Iterator,
    alive: impl FnOnce() -> A,
    most: usize,
) -> (usize, usize) {
    let ended = ended.take(DROPPED_MAX.saturating_add(1)).count();
    let alive = if ended > DROPPED_MAX { alive().take(most).count() } else { length.saturating_sub(ended) };
    (alive, ended)
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
        Observed::Permits => record.permits(asked.now, limit.get()),
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
pub(super) fn grant(record: &impl Record, permits: Permits, limit: Limit, asked: Asked) -> Result<Effect, Refusal> {
    if asked.observed == Observed::Free {
        let begin = Change::Begin { side: Side::Permit(limit), end: asked.end };
        return asked.granted(record, [Some(begin), None, None], true);
    }
    asked.granted(record, set(record, permits, asked.end), true)
}

/// This holder's permit gets this end, next to the permits of others.
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
    let permits = record.permits(now, 0);
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
    let permits = record.permits(now, 0);
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
    use std::cell::Cell;

    #[test]
    fn only_times_in_whole_ms_are_permits() {
        let (first, last) = (1_099_511_627_776.0, 9_007_199_254_740_992.0);
        assert_eq!((end_of_score(first), end_of_score(last)), (Some(PERMIT_END_MIN), Some(PERMIT_END_MAX)));
        assert!(are_permits(first, last));
        for foreign in
            [first - 1.0, last + 2.0, first + 0.5, 17.0, 0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
        {
            assert!(!are_permits(foreign, last) && !are_permits(first, foreign), "{foreign}");
        }
        assert!([first, first + 0.5, last].into_iter().all(may_have_been_permits));
        assert!(![first - 1.0, last + 2.0, f64::INFINITY].into_iter().any(may_have_been_permits));
    }

    #[test]
    fn a_count_takes_no_more_steps_the_more_have_ended() {
        let count = |ended: usize, alive: usize, most: usize| {
            let steps = Cell::new(0);
            let walk = |entries| (0..entries).inspect(|_| steps.set(steps.get() + 1));
            (count_entries(ended + alive, walk(ended), || walk(alive), most), steps.get())
        };
        assert_eq!(count(0, 100_000, 5), ((100_000, 0), 0), "none has ended");
        assert_eq!(count(1_000, 5, 5), ((5, 1_000), 1_000));
        for ended in [1_001, 10_000, 100_000] {
            assert_eq!(count(ended, 5, 5), ((5, 1_001), 1_006));
            assert_eq!(count(ended, 100_000, 2), ((2, 1_001), 1_003));
            assert_eq!(count(ended, 5, 0), ((0, 1_001), 1_001), "where it does not matter how many are alive");
        }
    }
}
