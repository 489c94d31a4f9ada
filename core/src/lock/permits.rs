//! Permits: as many holders at once as each request allows.
//!
//! A holder has one permit at most, so there is nothing to count: a second request restarts its lease, and a request that was
//! sent twice is granted once. A permit is an entry of a sorted set, and its score is the time at which it ends. The number of
//! free permits is never stored, so it cannot be wrong. The key ends with the last permit; if a client removes that permit,
//! the key's expiry is too late until the next change.
//!
//! Ended permits stay as entries until the next change, which drops a bounded number of them, so that a command stays short.

use super::change::Ended;
use super::request::{Ahead, Asked, Busy, Effect, Limit, Obstacle, Released, Renewed, Verdict};
use super::{Change, Decision, Expiry, Observed, Record, Refusal, Side, UnixMs};

/// The latest end up to which the scores of a sorted set represent each ms.
pub const PERMIT_END_MAX: UnixMs = 1 << 53;

/// The earliest end of a permit, in November 2004: no server's clock gives one that early.
const PERMIT_END_MIN: UnixMs = 1 << 40;

/// The maximum number of ended permits that one step drops.
const DROPPED_MAX: usize = 1_000;

/// The permits of one key, as one holder sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// The end of this holder's permit, unless it has ended.
    pub mine: Option<UnixMs>,
    /// The number of permits that have not ended, this holder's included. If more than [`DROPPED_MAX`] have ended, the count
    /// may stop at the number that was asked for.
    pub taken: usize,
    /// The number of ended permits of others that still have an entry. The count may stop above [`DROPPED_MAX`].
    pub ended: usize,
    /// The earliest end of the permits that have not ended.
    pub first_end: Option<UnixMs>,
    /// The latest end of the others' permits, unless all have ended.
    pub others_end: Option<UnixMs>,
}

/// Whether a sorted set with this lowest and this highest score holds permits. Other programs have sorted sets, too, and
/// nothing of theirs may be dropped. The key's expiry does not matter: it is the end of a permit that may have been removed.
#[must_use]
pub fn are_permits(lowest: f64, highest: f64) -> bool {
    [lowest, highest].into_iter().all(|score| end_of_score(score).is_some_and(|end| end >= PERMIT_END_MIN))
}

/// Whether a sorted set may be a set of permits to which other scores were added. `first` is its first score from
/// [`lowest_score`] up. Such a key may be seen and broken.
#[must_use]
pub fn may_have_been_permits(first: f64) -> bool {
    (lowest_score()..=score_of_end(PERMIT_END_MAX)).contains(&first)
}

/// The lowest score that a permit may have.
#[must_use]
pub fn lowest_score() -> f64 {
    score_of_end(PERMIT_END_MIN)
}

/// Counts the `length` entries of a key: how many are alive, and how many have ended. It steps through the ended ones, but
/// stops above the number that one step drops. Then it steps through the ones alive from the other end, up to `most`;
/// otherwise the rest of `length` is alive.
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

/// The end that a score represents, if it represents one.
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

/// The grant of a permit that this holder can get.
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

/// The changes that give this holder's permit this end, next to the permits of others.
fn set(record: &impl Record, permits: Permits, end: UnixMs) -> [Option<Change>; 3] {
    let permit = match permits.mine {
        Some(mine) if mine == end => Change::PermitStays,
        mine => Change::SetPermit { end, again: mine.is_some() },
    };
    let expire = expire_at(record, permits.others_end.map_or(end, |others| others.max(end)));
    // Changes in the lock's own key come first.
    match permit {
        Change::PermitStays => [drop_ended(permits), expire, Some(permit)],
        permit => [Some(permit), drop_ended(permits), expire],
    }
}

/// Releases this holder's permit.
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

/// Restarts the lease of this holder's permit, unless it has ended: another holder may have it by now.
///
/// # Errors
/// [`Refusal::LeaseTooLong`] if a score cannot represent its end.
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
