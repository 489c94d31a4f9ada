//! A holder that is told in the middle of its lease that it holds nothing.

use super::by_lock::{LockHistory, Step};
use super::certain::{Certain, certain_but_for, covers};
use super::troubles::Troubles;
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

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>, losses: &mut Losses) {
    for holder in &lock.holders {
        // What a guard is told comes from several requests, and its own repetitions are among them.
        if holder.iter().any(|place| lock.steps[*place].is_guard()) {
            continue;
        }
        for &place in holder {
            let step = &lock.steps[place];
            losses.asked += u64::from(matches!(step.answer(), Some(Answer::Renewed(_) | Answer::Released(_))));
            let Some(sides) = denied_sides(step) else { continue };
            let pieces = certain_but_for(lock, holder, place, troubles);
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
            "a hold was lost: {} {asked} by call {number} of {client} within its lease, and was told that it holds nothing",
            step.who(),
        ),
        evidence: vec![(client, number)],
    }
}
