//! A holder that is told in the middle of its lease that it holds nothing.

use super::by_lock::{LockHistory, Step};
use super::certain::{Certain, Surroundings, covers};
use super::verdict::{Promise, Violation};
use crate::history::{Answer, Request, Side};

/// Where that is nobody's fault but the client's, or the failover's.
#[derive(Default)]
pub struct Losses {
    pub after_a_stall: u64,
    pub after_a_failover: u64,
    pub after_a_removal: u64,
    /// Of so many renewals and releases.
    pub asked: u64,
}

pub fn check(lock: &LockHistory, around: &Surroundings, violations: &mut Vec<Violation>, losses: &mut Losses) {
    for holder in &lock.holders {
        // What a guard is told comes from several requests, and its own repetitions are among them.
        if holder.iter().any(|place| lock.steps[*place].is_guard()) {
            continue;
        }
        for &place in holder {
            let step = &lock.steps[place];
            losses.asked += u64::from(matches!(step.answer(), Some(Answer::Renewed(_) | Answer::Released(_))));
            let Some(sides) = denied_sides(step) else { continue };
            let pieces = around.certain_but_for(holder, place);
            let time = (step.call().at, step.done());
            let holds = |end: fn(&Certain) -> _| sides.iter().any(|side| covers(&pieces, *side, time, end));
            if holds(|piece| piece.until) {
                violations.push(violation(lock, step));
            } else if holds(|piece| piece.until_but_for_failovers) {
                losses.after_a_failover += 1;
            } else if holds(|piece| piece.until_but_for_troubles) {
                losses.after_a_removal += 1;
            } else if is_late(step, &pieces) {
                losses.after_a_stall += 1;
            }
        }
    }
}

/// Of which sides the server said that this holder does not hold them.
fn denied_sides(step: &Step) -> Option<Vec<Side>> {
    match (&step.call().request, step.answer()?) {
        (Request::Renew { .. }, Answer::Renewed(false)) => Some(vec![Side::Plain, Side::Read, Side::Write]),
        (Request::Release { side, .. }, Answer::Released(None)) => Some(vec![*side]),
        _ => None,
    }
}

fn is_late(step: &Step, pieces: &[Certain]) -> bool {
    let ends = pieces.iter().filter(|piece| piece.from <= step.call().at).map(|piece| piece.until_but_for_troubles);
    ends.max().is_some_and(|end| end < step.done())
}

fn violation(lock: &LockHistory, step: &Step) -> Violation {
    let (client, number) = step.named();
    let asked = match step.call().request {
        Request::Release { .. } => "gave it back",
        _ => "renewed it",
    };
    Violation {
        promise: Promise::HoldsLast,
        lock: lock.name.to_owned(),
        at: step.done(),
        what: format!(
            "a hold was lost: {} {asked} by call {number} of {client} within its lease, and was told that it \
             holds nothing",
            step.who(),
        ),
        evidence: vec![(client, number)],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::HoldsLast;
    use crate::checker::written::{Written, acquire, cancel, clock, give, granted, removed, renew, take};
    use crate::history::{Answer, Side};

    fn first() -> Written {
        Written::default().did("a", take(100), (0, 1), granted())
    }

    fn denied(history: Written, at: u64) -> Written {
        history.did("a", renew(100), (at, at + 1), Answer::Renewed(false))
    }

    #[test]
    fn who_comes_too_late_is_counted() {
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
    fn a_renewal_within_the_lease_is_granted() {
        assert!(denied(first(), 50).broken().contains(&HoldsLast));
    }

    #[test]
    fn a_release_within_the_lease_finds_something() {
        let released = first().did("a", give(Side::Plain), (50, 51), Answer::Released(None));
        assert!(released.broken().contains(&HoldsLast));
    }

    #[test]
    fn of_two_reads_one_is_left_when_one_was_given_back() {
        let read = |history: Written, at| history.did("a", acquire(Side::Read, 100), (at, at + 1), granted());
        let given =
            |history: Written, at, left| history.did("a", give(Side::Read), (at, at + 1), Answer::Released(left));
        let one_left = || given(read(read(Written::default(), 0), 2), 4, Some(0));
        assert_eq!(given(one_left(), 6, Some(1)).broken(), []);
        assert_eq!(given(one_left(), 6, None).broken(), [HoldsLast]);
    }

    #[test]
    fn what_somebody_removed_is_counted() {
        let removed = || denied(first().troubled((40, 45), removed(false)), 50);
        assert_eq!(removed().broken(), []);
        assert_eq!(removed().counted("removed"), Some((1, 1)));
        assert_eq!(denied(first().troubled((40, 45), clock(1_000)), 50).broken(), []);
        assert!(denied(first().troubled((60, 65), clock(1_000)), 50).broken().contains(&HoldsLast));
    }

    /// A ticket is granted, and told at 10.
    fn by_ticket(ack: u64) -> Written {
        let history = Written::default().queued("a", 3_000, (0, 1)).outcome("a", 1, 10, granted());
        history.polled((2, 10), 1, 0, &[(1, "a", granted())]).polled((11, 20), 1, ack, &[])
    }

    #[test]
    fn what_a_ticket_was_granted_lasts_from_when_it_is_told() {
        assert!(denied(by_ticket(0), 2_500).broken().contains(&HoldsLast));
        let untold = Written::default().queued("a", 3_000, (0, 1)).polled((2, 10), 1, 0, &[]);
        assert_eq!(denied(untold, 2_500).broken(), []);
        let renewed = by_ticket(0).did("a", renew(3_000), (12, 13), Answer::Renewed(true));
        assert!(denied(renewed, 2_500).broken().contains(&HoldsLast));
    }

    #[test]
    fn what_was_taken_back_may_be_gone_unless_it_was_renewed() {
        let cancelled = |history: Written| history.did("a", cancel(), (15, 16), Answer::Cancelled(None));
        assert_eq!(denied(cancelled(by_ticket(1)), 2_500).broken(), []);
        let renewed = by_ticket(0).did("a", renew(3_000), (12, 13), Answer::Renewed(true));
        assert!(denied(cancelled(renewed), 2_500).broken().contains(&HoldsLast));
    }
}
