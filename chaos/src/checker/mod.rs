//! From a history to a verdict: what in it broke a promise, and where promises end, how often.
//!
//! The checker knows nothing but what was written down, and says only what that proves: every bound is taken to the
//! side of the servers. So a violation is one, whatever the machine was doing; what is doubtful is left out or counted.
//! Each promise has a file of its own, and nothing in it needs another's verdict.

mod absent;
mod asleep;
mod by_lock;
mod certain;
mod dropped;
mod ended;
mod exclusion;
mod forbidden;
mod forgotten;
mod ghosts;
mod limits;
mod lost;
mod model;
mod order;
mod outcomes;
mod places;
mod sessions;
mod spans;
mod taken_back;
mod tokens;
mod troubles;
mod vanished;
mod verdict;
mod waits;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;

pub use verdict::{Counted, Figures, Promise, Verdict, Violation};

use crate::history::{Answer, Moment, Operation, Record, Request, pair};
use by_lock::by_lock;
use certain::Surroundings;
use forgotten::Forgotten;
use lost::Losses;
use sessions::Sessions;
use std::time::Duration;
use tokens::Repeated;
use troubles::Troubles;

/// For how long somebody may stand before a free lock, by default: the observers look at a lock so often, and a machine
/// that does much at once is late at times.
pub const ASLEEP: Duration = Duration::from_millis(500);

pub fn check(records: &[Record]) -> Verdict {
    check_with(records, ASLEEP)
}

/// With another bound for how long somebody may stand before a free lock.
pub fn check_with(records: &[Record], asleep: Duration) -> Verdict {
    let operations = pair(records);
    let troubles = Troubles::of(records);
    let sessions = Sessions::of(records);
    let forbidden = forbidden::windows(records, &troubles);
    let clients_end = clients_end(records);
    let mut violations = told(records);
    let mut figures = figures(records, &operations);
    let (mut losses, mut repeated, mut forgotten) = (Losses::default(), Repeated::default(), Forgotten::default());
    outcomes::check(&sessions, &troubles, &mut violations);
    for lock in by_lock(records, &operations) {
        let around = Surroundings::of(&lock, &troubles);
        let pieces = around.certain();
        figures.locks += 1;
        figures.holds_certain += pieces.iter().filter(|piece| piece.from < piece.until).count() as u64;
        exclusion::check(&lock, &pieces, &mut violations);
        forgotten::check(&lock, &pieces, &troubles, &mut forgotten);
        lost::check(&lock, &around, &mut violations, &mut losses);
        tokens::check(&lock, &troubles, &mut violations, &mut repeated);
        order::check(&lock, &troubles, &mut violations);
        places::check(&lock, &sessions, &troubles, &mut violations);
        taken_back::check(&lock, &sessions, &troubles, &mut violations);
        absent::check(&lock, &sessions, &troubles, &mut violations);
        ended::check(&lock, &sessions, &troubles, &mut violations);
        forbidden::check(&lock, &forbidden, &troubles, &mut violations);
        limits::check(&lock, &troubles, &mut violations);
        dropped::check(&lock, &troubles, clients_end, &mut violations);
        vanished::check(&lock, &sessions, &troubles, &mut violations);
        ghosts::check(&lock, &troubles, &mut violations);
        let longest = asleep::check(&lock, &troubles, asleep, &mut violations);
        figures.longest_free_with_waiter = figures.longest_free_with_waiter.max(longest);
        model::check(&lock, &troubles, &mut violations, &mut figures);
    }
    violations.sort_by_key(|violation| violation.at);
    Verdict { violations, counted: counted(&losses, &repeated, &forgotten), figures }
}

/// When the last client did something. Their processes end soon after, and do nothing in the background any more.
fn clients_end(records: &[Record]) -> Moment {
    let of_clients = records.iter().filter_map(|record| match record {
        Record::Called(call) => Some(call.at),
        Record::Answered { at, .. } | Record::Vouched { at, .. } | Record::Ended { at, .. } => Some(*at),
        _ => None,
    });
    of_clients.max().unwrap_or(Moment(0))
}

/// What was seen broken while it happened.
fn told(records: &[Record]) -> Vec<Violation> {
    let told = records.iter().filter_map(|record| match record {
        Record::Broken { at, promise, what } => Some(Violation {
            promise: Promise::Told(promise.clone()),
            lock: String::new(),
            at: *at,
            what: what.clone(),
            evidence: Vec::new(),
        }),
        _ => None,
    });
    told.collect()
}

fn counted(losses: &Losses, repeated: &Repeated, forgotten: &Forgotten) -> Vec<Counted> {
    let counted = [
        ("a client stalled beyond its lease", losses.after_a_stall, losses.asked),
        ("a hold was gone after a failover", losses.after_a_failover, losses.asked),
        ("a hold was gone after somebody removed the lock", losses.after_a_removal, losses.asked),
        ("a token was not above all others after a failover", repeated.times, repeated.of),
    ];
    let counted = counted.into_iter().filter(|(_, _, of)| *of > 0);
    let counted = counted.map(|(what, times, of)| Counted { what: what.to_owned(), times, of });
    counted.chain(forgotten.counted()).collect()
}

fn figures(records: &[Record], operations: &[Operation]) -> Figures {
    let mut figures = Figures { operations: operations.len() as u64, ..Figures::default() };
    for operation in operations {
        match operation.known().map(|(_, answer)| answer) {
            None => figures.unknown += 1,
            Some(Answer::Granted { .. }) => {
                figures.grants += 1;
                figures.waited_grants += u64::from(waits(&operation.call.request));
                figures.told_grants += u64::from(operation.queued.is_some());
            }
            Some(Answer::Refused { .. }) => figures.refusals += 1,
            Some(Answer::Renewed(true)) => figures.renewals += 1,
            Some(Answer::Released(Some(_))) => figures.releases += 1,
            Some(_) => {}
        }
    }
    figures.samples = records.iter().filter(|record| matches!(record, Record::Seen(_))).count() as u64;
    figures.troubles = records.iter().filter(|record| matches!(record, Record::Troubled(_))).count() as u64;
    figures
}

fn waits(request: &Request) -> bool {
    matches!(request, Request::Acquire { wait_ms: Some(_), .. })
}
