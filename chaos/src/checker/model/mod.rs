//! Whether all that was answered about a lock can have come from one lock that does one thing after the other.
//!
//! This is asked of plain locks whose every step is recorded, and only where no server forgot anything and no clock was
//! moved. It is the hardest question of the checker: each operation took effect at some moment between its call and its
//! answer, and there must be one order in which all answers are right.

mod search;
mod state;

use super::by_lock::{LockHistory, Step};
use super::spans::Spans;
use super::troubles::Troubles;
use super::verdict::{Figures, Promise, Violation};
use crate::history::{Moment, Request, Side};
use search::{Found, Stuck, search};
use state::{Deed, Event};
use std::collections::HashMap;

/// How many steps a search may take, per operation and at least. What is not found by then stays undecided.
const STEPS_PER_OPERATION: u64 = 20;
const STEPS: u64 = 200_000;

/// How many operations around the place where the search got no further are named.
const SHOWN: usize = 6;

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>, figures: &mut Figures) {
    let is_whole = troubles.failovers.is_empty() && troubles.clock_steps.is_empty();
    if !is_whole || lock.steps.is_empty() || !lock.steps.iter().all(is_recorded) {
        return;
    }
    let events = events(lock);
    let changed = changed(lock, troubles);
    let budget = STEPS + STEPS_PER_OPERATION * events.len() as u64;
    match search(&events, &changed, budget) {
        Found::Undecided => {
            figures.lin_undecided_locks += 1;
            return;
        }
        Found::NoOrder(stuck) => violations.push(violation(lock, &events, &stuck)),
        Found::Order => {}
    }
    figures.lin_checked_locks += 1;
    figures.lin_checked_operations += events.len() as u64;
}

/// By commands or scripts, on a plain lock, with names that tell the holders apart.
fn is_recorded(step: &Step) -> bool {
    let is_plain = match step.call().request {
        Request::Acquire { side, .. } | Request::Release { side, .. } => side == Side::Plain,
        Request::Renew { .. } => true,
        Request::Guard { .. } => false,
    };
    is_plain && !step.call().holder.is_empty()
}

/// What was done or may have been done. What failed was not.
fn events(lock: &LockHistory) -> Vec<Event> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut events = Vec::new();
    for steps in &lock.holders {
        let leases = leases_by_script(lock, steps);
        for &place in steps {
            let step = &lock.steps[place];
            let next = u32::try_from(numbers.len()).expect("fewer holders than that");
            let holder = *numbers.entry(step.who()).or_insert(next);
            if let Some(deed) = Deed::of(step) {
                events.push(Event { place, holder, called: step.call().at, done: done(step), deed, leases });
            }
        }
    }
    events.sort_by_key(|event| (event.called, event.place));
    events
}

/// An attempt that replicas had to confirm was granted by the server before they failed to.
fn done(step: &Step) -> Moment {
    if step.failed() { Moment(u64::MAX) } else { step.done() }
}

/// The shortest and the longest lease that a script may restart when it gives back one hold of several.
fn leases_by_script(lock: &LockHistory, steps: &[usize]) -> Option<(u64, u64)> {
    let steps = || steps.iter().map(|place| &lock.steps[*place]);
    if !steps().any(Step::is_by_script) {
        return None;
    }
    let leases = || {
        steps().filter_map(|step| match step.call().request {
            Request::Acquire { lease_ms, .. } | Request::Renew { lease_ms } => Some(lease_ms),
            _ => None,
        })
    };
    Some((leases().min()?, leases().max()?))
}

/// When somebody may have done anything to it.
fn changed(lock: &LockHistory, troubles: &Troubles) -> Spans<()> {
    let changes = troubles.removals(lock.name, Moment(0), Moment(u64::MAX));
    Spans::from(changes.map(|trouble| (trouble.began, trouble.ended, ())).collect())
}

fn violation(lock: &LockHistory, events: &[Event], stuck: &Stuck) -> Violation {
    let step = |event: usize| &lock.steps[events[event].place];
    let blocked = step(stuck.blocked);
    let (client, number) = blocked.named();
    let before = stuck.before.iter().rev().take(SHOWN).rev();
    let evidence = before.chain([&stuck.blocked]).map(|event| step(*event).named()).collect();
    Violation {
        promise: Promise::AnswersAreExplained,
        lock: lock.name.to_owned(),
        at: blocked.operation.answer.as_ref().map_or(blocked.call().at, |(at, _)| *at),
        what: format!(
            "no order of these operations explains the answers: {} of {} can be put in an order, but then not {}, call \
             {number} of {client} for {}, answered {:?}",
            stuck.explained,
            events.len(),
            blocked.request_in_words(),
            blocked.who(),
            blocked.answer(),
        ),
        evidence,
    }
}
