//! Replies, in the middle of a holder's lease, that this holder holds nothing.

use super::by_lock::LockHistory;
use super::certain::{Certain, Surroundings, covers};
use super::verdict::{HOLDS_LAST, Verdict};
use crate::history::{Answer, Operation, Request, Side};

/// What explains a loss: the client, a failover, or the fault that removed the lock.
const EXCUSES: [&str; 3] = [
    "a client stalled beyond its lease",
    "a hold was gone after a failover",
    "a hold was gone after the lock was removed",
];

const NO_EXCUSE: &str = "a hold was lost";

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let around = Surroundings::of(lock);
    for holder in &lock.holders {
        // A guard's report combines several requests, its own repetitions among them.
        if holder.iter().any(|step| step.is_guard()) {
            continue;
        }
        for step in holder {
            if !matches!(step.known_answer(), Some(Answer::Renewed(_) | Answer::Released(_) | Answer::Stored(_))) {
                continue;
            }
            let why = denied_sides(step).and_then(|sides| why(&around, holder, step, &sides));
            EXCUSES.iter().for_each(|excuse| verdict.count(excuse, u64::from(why == Some(*excuse)), 1));
            if why == Some(NO_EXCUSE) {
                let what =
                    format!("{NO_EXCUSE}: {} got the reply within its lease that it holds nothing", step.holder());
                verdict.violations.push(lock.violation(HOLDS_LAST, step.done(), what, &[step]));
            }
        }
    }
}

/// Why the server denied the hold. None: the holder held nothing.
fn why(around: &Surroundings, holder: &[&Operation], step: &Operation, sides: &[Side]) -> Option<&'static str> {
    let pieces = around.certain_without(holder, step);
    let time = (step.call.at, step.done());
    let holds = |end: fn(&Certain) -> _| sides.iter().any(|side| covers(&pieces, *side, time, end));
    let [after_a_stall, after_a_failover, after_a_removal] = EXCUSES;
    if holds(|piece| piece.until) {
        return Some(NO_EXCUSE);
    }
    if holds(|piece| piece.until_without_failovers) {
        return Some(after_a_failover);
    }
    if holds(|piece| piece.until_without_troubles) {
        return Some(after_a_removal);
    }
    let ends = pieces.iter().filter(|piece| piece.from <= step.call.at).map(|piece| piece.until_without_troubles);
    ends.max().filter(|end| *end < step.done()).map(|_| after_a_stall)
}

/// The sides that this holder does not hold, according to the server.
fn denied_sides(step: &Operation) -> Option<Vec<Side>> {
    match (&step.call.request, step.known_answer()?) {
        (Request::Renew { .. }, Answer::Renewed(false)) => Some(Side::ALL.to_vec()),
        (Request::Release { side, .. }, Answer::Released(None)) => Some(vec![*side]),
        (Request::Answer { .. }, Answer::Stored(false)) => Some(vec![Side::Plain]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::HOLDS_LAST;
    use crate::checker::written::{Written, acquire, answer, clock, give, granted, removed, renew, take};
    use crate::history::{Answer, Side};

    fn first() -> Written {
        Written::default().did("a", take(100), (0, 1), granted())
    }

    fn denied(history: Written, at: u64) -> Written {
        history.did("a", renew(100), (at, at + 1), Answer::Renewed(false))
    }

    #[test]
    fn a_renewal_after_the_lease_is_counted() {
        assert_eq!(denied(first(), 200).broken(), []);
        assert_eq!(denied(first(), 200).counted("stalled"), Some((1, 1)));
        let twice = first().did("a", give(Side::Plain), (10, 11), Answer::Released(Some(1))).did(
            "a",
            give(Side::Plain),
            (12, 13),
            Answer::Released(None),
        );
        assert_eq!(twice.broken(), []);
    }

    #[test]
    fn a_release_within_the_lease_finds_something() {
        let released = first().did("a", give(Side::Plain), (50, 51), Answer::Released(None));
        assert!(released.breaks(HOLDS_LAST));
    }

    #[test]
    fn an_answer_within_the_lease_is_stored() {
        let answered = |stored| first().did("a", answer("v", 10), (50, 51), Answer::Stored(stored));
        assert_eq!(answered(false).broken(), [HOLDS_LAST]);
        assert_eq!(answered(true).broken(), []);
        let twice = answered(true).did("a", answer("v", 10), (52, 53), Answer::Stored(false));
        assert_eq!(twice.broken(), [], "it ended the hold");
    }

    #[test]
    fn one_release_of_two_reads_leaves_one() {
        let read = |history: Written, at| history.did("a", acquire(Side::Read, 100), (at, at + 1), granted());
        let given =
            |history: Written, at, left| history.did("a", give(Side::Read), (at, at + 1), Answer::Released(left));
        let one_left = || given(read(read(Written::default(), 0), 2), 4, Some(0));
        assert_eq!(given(one_left(), 6, Some(1)).broken(), []);
        assert_eq!(given(one_left(), 6, None).broken(), [HOLDS_LAST]);
    }

    #[test]
    fn a_removed_lock_is_counted() {
        let removed = || denied(first().troubled((40, 45), removed(false)), 50);
        assert_eq!(removed().broken(), []);
        assert_eq!(removed().counted("removed"), Some((1, 1)));
        assert_eq!(denied(first().troubled((40, 45), clock(1_000)), 50).broken(), []);
        assert!(denied(first().troubled((60, 65), clock(1_000)), 50).breaks(HOLDS_LAST));
    }
}
