//! Grants by a server that could not write at that time.
//!
//! When a waiter was granted nobody knows but by looking: who holds the lock now and did not a moment ago has got it in
//! between.

use super::by_lock::LockHistory;
use super::spans::Spans;
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Holding, Record, Sample};
use std::collections::HashMap;

/// What a server was forbidden to write by.
pub struct Window<'a> {
    server: &'a str,
    what: &'a str,
}

/// When servers certainly could not write. A clock that is stepped may end a pause, so such times do not count.
pub fn windows<'a>(records: &'a [Record], troubles: &Troubles) -> Spans<Window<'a>> {
    let windows = records.iter().filter_map(|record| match record {
        Record::Forbade { from, until, server, what } if from < until => Some((*from, *until, Window { server, what })),
        _ => None,
    });
    Spans::from(windows.filter(|(from, until, _)| !troubles.clock_steps.touches(*from, *until)).collect())
}

pub fn check(lock: &LockHistory, windows: &Spans<Window>, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let mut before: HashMap<&str, &Sample> = HashMap::new();
    for &sample in &lock.samples {
        let Some(earlier) = before.insert(&sample.server, sample) else { continue };
        let Some(new) = sample.holders.iter().find(|holding| !has(earlier, holding)) else { continue };
        // Databases that are swapped, and back, take locks away and bring them again.
        if troubles.removals(lock.name, earlier.asked, sample.answered).next().is_some() {
            continue;
        }
        let around = windows.touching(earlier.asked, sample.answered);
        let window = around.filter(|(from, until, window)| {
            *from <= earlier.asked && sample.answered <= *until && window.server == sample.server
        });
        for (_, _, window) in window.take(1) {
            violations.push(Violation {
                promise: Promise::NoGrantWhileForbidden,
                lock: lock.name.to_owned(),
                at: sample.asked,
                what: format!("{} got it from server {} in spite of {}", new.holder, sample.server, window.what),
                evidence: evidence(lock, &new.holder),
            });
        }
    }
}

fn has(sample: &Sample, holding: &Holding) -> bool {
    sample.holders.iter().any(|it| it.holder == holding.holder && it.side == holding.side)
}

fn evidence(lock: &LockHistory, holder: &str) -> Vec<(String, u64)> {
    lock.steps.iter().filter(|step| step.who() == holder).map(|step| step.named()).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::Promise::NoGrantWhileForbidden;
    use crate::checker::written::{Written, clock, removed};
    use crate::history::Side::Plain;

    fn handed_over(at: u64) -> Written {
        let before = Written::default().seen(at - 20, &[("x", Plain)], &[("w", Plain, 0)]);
        before.seen(at, &[("w", Plain)], &[])
    }

    #[test]
    fn a_new_holder_between_two_looks_is_one() {
        assert_eq!(handed_over(500).forbade((100, 900)).broken(), [NoGrantWhileForbidden]);
        let free = Written::default().seen(480, &[], &[("w", Plain, 0)]).seen(500, &[("w", Plain)], &[]);
        assert_eq!(free.forbade((100, 900)).broken(), [NoGrantWhileForbidden]);
    }

    #[test]
    fn it_may_have_been_before_or_after() {
        assert_eq!(handed_over(500).forbade((490, 900)).broken(), []);
        assert_eq!(handed_over(500).forbade((100, 490)).broken(), []);
        assert_eq!(handed_over(500).broken(), []);
    }

    #[test]
    fn a_lock_that_is_brought_back_is_none() {
        let swapped = handed_over(500).forbade((100, 900)).troubled((450, 490), removed(false));
        assert_eq!(swapped.broken(), []);
        let before = handed_over(500).forbade((100, 900)).troubled((200, 300), removed(false));
        assert_eq!(before.broken(), [NoGrantWhileForbidden]);
    }

    #[test]
    fn whoever_goes_is_none() {
        let gone = Written::default().seen(480, &[("x", Plain), ("y", Plain)], &[]).seen(500, &[("y", Plain)], &[]);
        assert_eq!(gone.forbade((100, 900)).broken(), []);
    }

    #[test]
    fn a_clock_that_is_stepped_ends_pauses() {
        assert_eq!(handed_over(500).forbade((100, 900)).troubled((300, 301), clock(1_000)).broken(), []);
    }
}
