//! Waiters before a lock that is free.

use super::by_lock::LockHistory;
use super::spans::Spans;
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use super::waits::is_same;
use crate::history::{Answer, Moment, Sample, Side};
use std::collections::HashMap;
use std::time::Duration;

/// A script of which nobody knows what became of it may take a lock and lose it again so long after it was sent.
const UNKNOWN_LASTS: Duration = Duration::from_secs(5);

/// For how long the same one was seen first before a lock that was free each time. Returns the longest time of all, what
/// excuses it taken off.
pub fn check(lock: &LockHistory, troubles: &Troubles, bound: Duration, violations: &mut Vec<Violation>) -> Duration {
    let scripts = script_grants(lock);
    let mut longest = Duration::ZERO;
    for run in runs(lock, &scripts) {
        let (from, until) = (run.first.answered, run.last.asked);
        if until <= from {
            continue;
        }
        let asleep = troubles.quiet(lock.name, from, until);
        longest = longest.max(asleep);
        if asleep > bound {
            violations.push(violation(lock, &run, asleep));
        }
    }
    longest
}

struct Run<'a> {
    first: &'a Sample,
    last: &'a Sample,
}

fn runs<'a>(lock: &LockHistory<'a>, scripts: &Spans<()>) -> Vec<Run<'a>> {
    let mut runs: Vec<Run> = Vec::new();
    // Of each server the run that its last sample belongs to.
    let mut open: HashMap<&str, usize> = HashMap::new();
    for &sample in &lock.samples {
        let server = sample.server.as_str();
        if !is_free(sample) {
            open.remove(server);
            continue;
        }
        match open.get(server).map(|place| &mut runs[*place]) {
            Some(run) if goes_on(run.last, sample, scripts) => run.last = sample,
            _ => {
                open.insert(server, runs.len());
                runs.push(Run { first: sample, last: sample });
            }
        }
    }
    runs
}

/// While the same one is first, nobody else can have had the lock in between, but a script.
fn goes_on(earlier: &Sample, later: &Sample, scripts: &Spans<()>) -> bool {
    let (Some(before), Some(after)) = (earlier.waiters.first(), later.waiters.first()) else { return false };
    is_same((earlier, before), (later, after)) && !scripts.touches(earlier.asked, later.answered)
}

/// Whether the first who waits could be let in.
fn is_free(sample: &Sample) -> bool {
    let Some(first) = sample.waiters.first() else { return false };
    let nobody = sample.holders.is_empty() || sample.ttl_ms == -2;
    let readers = sample.holders.iter().all(|holding| holding.side == Side::Read);
    nobody || (readers && first.side == Side::Read)
}

fn script_grants(lock: &LockHistory) -> Spans<()> {
    let may_be_granted = lock.steps.iter().filter(|step| {
        step.is_by_script() && !matches!(step.answer(), Some(Answer::Refused { .. } | Answer::Failed(_)))
    });
    let span = |at: Moment, done: Moment| (at, done.min(at + UNKNOWN_LASTS), ());
    Spans::from(may_be_granted.map(|step| span(step.call().at, step.done())).collect())
}

fn violation(lock: &LockHistory, run: &Run, asleep: Duration) -> Violation {
    let first = run.last.waiters.first();
    let holder = first.map_or("", |waiting| &waiting.holder);
    let waiter = lock.steps.iter().rev().find(|step| step.call().holder == holder);
    Violation {
        promise: Promise::NobodySleepsAtAFreeLock,
        lock: lock.name.to_owned(),
        at: run.last.asked,
        what: format!(
            "asleep at a free lock: {holder} (client {} of server {}) stood first before it for {:.1} ms, {} ms of them \
             without an excuse",
            first.map_or(0, |waiting| waiting.client_id),
            run.last.server,
            run.last.asked.since(run.first.answered).as_secs_f64() * 1e3,
            asleep.as_millis(),
        ),
        evidence: waiter.map(|step| step.named()).into_iter().collect(),
    }
}
