//! From a history to a verdict: which promises were broken, and how often the cases occurred that no promise covers.
//!
//! The checker knows only what was recorded, and reports only what that proves: every bound errs in favour of the
//! servers. So a violation is a fact, however busy the machine was; a doubtful case is left out or counted. Each
//! promise has its own file, and needs no other's verdict.

mod asleep;
mod by_lock;
mod certain;
mod dropped;
mod exclusion;
mod exposed;
mod forbidden;
mod ghosts;
mod limits;
mod lost;
mod once;
mod order;
mod permits;
mod runs;
mod sets;
mod spans;
mod tokens;
mod troubles;
mod vanished;
mod verdict;
mod waits;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;

pub use exposed::Failovers;
pub use verdict::{Promise, Verdict, Violation};

use crate::history::{Answer, Operation, Record, pair};
use crate::observer::SILENCE;
use by_lock::{LockHistory, by_lock};
use std::time::Duration;
use troubles::Troubles;

/// Servers count in whole ms, by a clock that does not move during a command.
const ROUGHNESS: Duration = Duration::from_millis(2);

/// The checks of each lock.
const CHECKS: [fn(&LockHistory, &mut Verdict); 11] = [
    exclusion::check,
    permits::check,
    lost::check,
    tokens::check,
    forbidden::check,
    limits::check,
    dropped::check,
    vanished::check,
    ghosts::check,
    asleep::check,
    once::check,
];

pub fn check(records: &[Record]) -> Verdict {
    let operations = pair(records);
    let troubles = Troubles::of(records);
    let mut verdict = Verdict::default();
    add_recorded(records, &mut verdict);
    operations.iter().for_each(|operation| count(operation, &mut verdict));
    let locks = by_lock(records, &operations, &troubles);
    for lock in &locks {
        CHECKS.iter().for_each(|check| check(lock, &mut verdict));
    }
    order::check(&locks, &mut verdict);
    sets::check(&locks, &mut verdict);
    exposed::check(records, &locks, &mut verdict);
    verdict.violations.sort_by_key(|violation| violation.at);
    verdict
}

/// A promise that was seen broken during the run is a violation.
fn add_recorded(records: &[Record], verdict: &mut Verdict) {
    for record in records {
        match record {
            Record::Broken { at, promise, what } => {
                verdict.violations.push(Violation::without_lock(Promise(promise.clone().into()), *at, what.clone()));
            }
            Record::Seen(_) => verdict.figures.add("samples", 1),
            Record::Troubled(_) => verdict.figures.add("faults", 1),
            Record::Measured { what, value, .. } if what == SILENCE => verdict.figures.add(what, *value as u64),
            _ => {}
        }
    }
}

fn count(operation: &Operation, verdict: &mut Verdict) {
    let mut add = |name: &str, is: bool| verdict.figures.add(name, u64::from(is));
    let (answer, is_wait) = (operation.known_answer(), operation.call.request.waits());
    let is_granted = operation.granted().is_some();
    add("operations", true);
    add("unknown", answer.is_none());
    add("grants", is_granted);
    add("after a wait", is_granted && is_wait);
    add("refusals", matches!(answer, Some(Answer::Refused { .. })));
    add("renewals", matches!(answer, Some(Answer::Renewed(true))));
    add("onces", operation.is_by_once());
    add("leads", is_granted && operation.is_by_once());
    add("answers stored", matches!(answer, Some(Answer::Stored(true))));
    add("answers refused", matches!(answer, Some(Answer::Stored(false))));
    add("tickets answered", matches!(answer, Some(Answer::Answered)));
    add("answers got", matches!(answer, Some(Answer::Got { .. })));
    add("releases", matches!(answer, Some(Answer::Released(Some(_)))));
}
