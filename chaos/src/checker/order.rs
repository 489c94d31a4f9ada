//! Somebody who came later and was served first.

use super::by_lock::{LockHistory, Step};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use super::waits::{Wait, waits};
use crate::history::{Answer, Moment, Request};

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let mut waits: Vec<Wait> = waits(lock);
    waits.retain(|wait| {
        let (began, ended) = (wait.first.asked, wait.last.answered);
        // Elsewhere there may be another queue; and by a clock that was moved nobody knows who has waited how long.
        !troubles.failovers.touches(began, ended) && !troubles.clock_steps.touches(began, ended)
    });
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.begun_by()));
    let mut arrivals: Vec<(Moment, &Step)> = lock.holders.iter().filter_map(|steps| arrival(lock, steps)).collect();
    arrivals.sort_by_key(|(_, step)| step.call().at);
    // Of all who came later than the wait in question, the one who was served first.
    let mut first: Option<(Moment, &Step)> = None;
    for wait in waits {
        while let Some(arrival) = arrivals.pop_if(|(_, step)| step.call().at > wait.begun_by()) {
            if first.is_none_or(|first| arrival.0 < first.0) {
                first = Some(arrival);
            }
        }
        if let Some((served, step)) = first.filter(|first| first.0 < wait.last.asked) {
            violations.push(violation(lock, &wait, step, served));
        }
    }
}

/// When a holder that had nothing before was let in, and by which step. Scripts know of no queue, and several servers
/// have no common one.
fn arrival<'l, 'a>(lock: &'l LockHistory<'a>, steps: &[usize]) -> Option<(Moment, &'l Step<'a>)> {
    let mut asked = steps.iter().map(|place| &lock.steps[*place]).filter(|step| step.asks_for().is_some());
    let step = asked.find(|step| !matches!(step.answer(), Some(Answer::Refused { .. } | Answer::Failed(_))))?;
    let call = step.call();
    let knows_the_queue = match call.request {
        Request::Acquire { by_script, .. } => !by_script,
        Request::Guard { majority, .. } => !majority,
        _ => false,
    };
    let (served, _) = step.operation.granted()?;
    (knows_the_queue && !call.holder.is_empty()).then_some((served, step))
}

fn violation(lock: &LockHistory, wait: &Wait, step: &Step, served: Moment) -> Violation {
    let (client, number) = step.named();
    let waiter = lock.steps.iter().rev().find(|step| step.call().holder == wait.holder).map(Step::named);
    Violation {
        promise: Promise::FirstComeFirstServed,
        lock: lock.name.to_owned(),
        at: served,
        what: format!(
            "overtaken: {} (client {} of server {}) waited already when {} called by call {number} of {client}, which was \
             granted; {:.1} ms after that it waited still",
            wait.holder,
            wait.client_id,
            wait.last.server,
            step.who(),
            wait.last.asked.since(served).as_secs_f64() * 1e3,
        ),
        evidence: waiter.into_iter().chain([(client, number)]).collect(),
    }
}
