//! Waiters who are in the queue no more and were told nothing.

use super::by_lock::{LockHistory, Step};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use super::waits::{Wait, waits};
use crate::history::{Moment, Request};
use std::collections::HashMap;
use std::time::Duration;

/// What an answer may take on a machine that does much at once.
const LATE: Duration = Duration::from_secs(1);

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let askers = askers(lock);
    for wait in waits(lock) {
        let Some(step) = askers.get(wait.holder) else { continue };
        let Some(missed) = missed(lock, &wait) else { continue };
        // Also of whoever gave up by itself it is known when.
        let answered = step.operation.answer.as_ref().map_or(Moment(u64::MAX), |(at, _)| *at);
        let looked = lock.samples.last().map_or(missed, |sample| sample.asked);
        let silent = troubles.quiet(lock.name, missed, answered.min(looked));
        if silent > LATE && !troubles.clients.touches(wait.last.asked, missed + LATE * 2) {
            violations.push(violation(lock, step, &wait, missed, silent));
        }
    }
}

/// When it was seen that it is not in the queue any more.
fn missed(lock: &LockHistory, wait: &Wait) -> Option<Moment> {
    let later = lock.samples.partition_point(|sample| sample.asked <= wait.last.asked);
    let next = lock.samples[later..].iter().find(|sample| sample.server == wait.last.server)?;
    Some(next.answered)
}

/// Those who waited once: of others it would not be known for which of their waits they were seen.
fn askers<'l, 'a>(lock: &'l LockHistory<'a>) -> HashMap<&'a str, &'l Step<'a>> {
    let waiting = lock.holders.iter().filter_map(|steps| {
        let is_wait = |step: &&Step| matches!(step.call().request, Request::Acquire { wait_ms: Some(_), .. });
        let mut waits = steps.iter().map(|place| &lock.steps[*place]).filter(is_wait);
        let only = waits.next()?;
        waits.next().is_none().then(|| (only.who(), only))
    });
    waiting.collect()
}

fn violation(lock: &LockHistory, step: &Step, wait: &Wait, missed: Moment, silent: Duration) -> Violation {
    Violation {
        promise: Promise::WaitersAreAnswered,
        lock: lock.name.to_owned(),
        at: missed,
        what: format!(
            "{} (client {} of server {}) was in the queue no more, and had no answer for {} ms after that",
            wait.holder,
            wait.client_id,
            wait.last.server,
            silent.as_millis()
        ),
        evidence: vec![step.named()],
    }
}
