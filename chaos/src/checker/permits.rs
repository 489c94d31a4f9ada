//! More permits out at once than allowed.
//!
//! Each request is judged by its own limit. Of the holders at one moment, the last was granted while all others had a
//! permit: so their number is at most their largest limit. And no request is granted if others had reached its limit at
//! every moment at which it can have been granted.

use super::by_lock::LockHistory;
use super::certain::{Certain, Surroundings};
use super::verdict::{AS_MANY_PERMITS_AS_ASKED_FOR, Verdict};
use crate::history::{Moment, Operation, Request, Side};
use std::collections::BTreeMap;

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let limits = lock.each(limit);
    if limits.is_empty() {
        return;
    }
    let mut pieces = Surroundings::of(lock).certain();
    pieces.retain(|piece| piece.side == Side::Permit && piece.from < piece.until_for_others);
    verdict.figures.add("permits certain", pieces.len() as u64);
    for piece in &pieces {
        let holder = piece.step.holder();
        let there = at(&pieces, piece.from);
        let most = there.keys().filter_map(|holder| limits.get(holder)).max().copied().unwrap_or_default();
        let own = first_grant(lock, piece.step).filter(|limit| {
            let others = |moment| at(&pieces, moment).keys().filter(|other| **other != holder).count();
            others(piece.from) >= *limit && moments(&pieces, piece).all(|moment| others(moment) >= *limit)
        });
        if there.len() > most || own.is_some() {
            let others: Vec<&str> = there.keys().copied().filter(|other| *other != holder).collect();
            let what = format!(
                "{holder} was granted a permit by a limit of {}, while {others:?} had one, and none of them asked for more than {most}",
                limits.get(holder).copied().unwrap_or_default(),
            );
            let evidence: Vec<&Operation> = there.into_values().collect();
            verdict.violations.push(lock.violation(AS_MANY_PERMITS_AS_ASKED_FOR, piece.from, what, &evidence));
        }
    }
}

/// The largest limit of this holder's requests.
fn limit(steps: &[&Operation]) -> Option<usize> {
    steps.iter().filter_map(|step| limit_of(step)).max()
}

fn limit_of(step: &Operation) -> Option<usize> {
    match step.call.request {
        Request::Acquire { side: Side::Permit, limit, .. } | Request::Guard { side: Side::Permit, limit, .. } => {
            usize::try_from(limit).ok()
        }
        _ => None,
    }
}

/// The limit of this grant, if its holder cannot have had a permit before: a holder with a permit gets it again.
fn first_grant(lock: &LockHistory, step: &Operation) -> Option<usize> {
    let is_other = |other: &&Operation| other.holder() == step.holder() && limit_of(other).is_some();
    let is_first = lock.steps.iter().copied().find(is_other).is_some_and(|first| std::ptr::eq(first, step));
    limit_of(step).filter(|_| is_first)
}

/// The holders that certainly have a permit at this moment, each with the step that shows it.
fn at<'a>(pieces: &[Certain<'a>], moment: Moment) -> BTreeMap<&'a str, &'a Operation> {
    let there = pieces.iter().filter(|piece| piece.from <= moment && moment < piece.until_for_others);
    there.map(|piece| (piece.step.holder(), piece.step)).collect()
}

/// The moments during this grant at which the fewest others can have had a permit: its beginning, and each end of
/// another permit.
fn moments(pieces: &[Certain], granted: &Certain) -> impl Iterator<Item = Moment> {
    let (asked, answered) = (granted.step.call.at, granted.from);
    let ends = pieces.iter().map(|piece| piece.until_for_others).filter(move |end| asked < *end && *end <= answered);
    std::iter::once(asked).chain(ends)
}

#[cfg(test)]
mod tests {
    use crate::checker::verdict::{AS_MANY_PERMITS_AS_ASKED_FOR, ONE_HOLDER};
    use crate::checker::written::{Written, failover, give, granted, permit, removed, take, wait_for};
    use crate::history::{Answer, Side};

    fn two() -> Written {
        Written::default().did("a", permit(100, 2), (0, 1), granted()).did("b", permit(100, 2), (2, 3), granted())
    }

    #[test]
    fn as_many_as_were_asked_for_are_right() {
        assert_eq!(two().broken(), []);
        assert_eq!(two().did("c", permit(100, 3), (10, 11), granted()).broken(), []);
        assert_eq!(two().did("c", permit(100, 2), (100, 102), granted()).broken(), [], "one may have ended");
        assert_eq!(two().did("a", permit(100, 1), (10, 11), granted()).broken(), [], "which has one already");
    }

    #[test]
    fn one_more_is_wrong() {
        assert_eq!(two().did("c", permit(100, 2), (10, 11), granted()).broken(), [AS_MANY_PERMITS_AS_ASKED_FOR]);
        let three = two().did("c", permit(100, 3), (10, 11), granted());
        assert_eq!(three.did("d", permit(100, 2), (20, 21), granted()).broken(), [AS_MANY_PERMITS_AS_ASKED_FOR]);
    }

    #[test]
    fn a_lower_limit_is_judged_by_itself() {
        assert_eq!(two().did("c", permit(100, 1), (10, 11), granted()).broken(), [AS_MANY_PERMITS_AS_ASKED_FOR]);
        // One of the two permits is returned, so a limit of 1 still allows no other. If both are, it does.
        let given = two().did("a", give(Side::Permit), (20, 21), Answer::Released(Some(1)));
        let third = given.did("c", wait_for(permit(100, 1), 0), (10, 50), granted());
        assert!(third.breaks(AS_MANY_PERMITS_AS_ASKED_FOR));
        let both = two().did("a", give(Side::Permit), (20, 21), Answer::Released(Some(1)));
        let both = both.did("b", give(Side::Permit), (20, 21), Answer::Released(Some(1)));
        assert_eq!(both.did("c", wait_for(permit(100, 1), 0), (10, 50), granted()).broken(), []);
    }

    #[test]
    fn what_is_over_is_not_counted() {
        let given = two().did("a", give(Side::Permit), (5, 6), Answer::Released(Some(1)));
        assert_eq!(given.did("c", permit(100, 2), (10, 11), granted()).broken(), []);
        assert_eq!(two().troubled((5, 6), removed(false)).did("c", permit(100, 2), (10, 11), granted()).broken(), []);
        assert_eq!(two().troubled((5, 6), failover()).did("c", permit(100, 2), (10, 11), granted()).broken(), []);
    }

    #[test]
    fn a_lock_holder_excludes_permits() {
        assert!(two().did("c", take(100), (10, 11), granted()).breaks(ONE_HOLDER));
    }
}
