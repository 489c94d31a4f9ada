//! Guards that nobody has any more, and waits that nobody waits for any more: `rlock-client` gives them back by itself.

use super::by_lock::{LockHistory, Step};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Answer, Moment, Sample};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Longer than it takes to find out that an answer is lost, to connect anew, and to give back.
const LATE: Duration = Duration::from_millis(2_500);

/// Up to the moment when clients end: they give nothing back after it.
pub fn check(lock: &LockHistory, troubles: &Troubles, clients_end: Moment, violations: &mut Vec<Violation>) {
    let over: HashMap<&str, (Moment, &Step)> = lock.holders.iter().filter_map(|steps| over(lock, steps)).collect();
    let mut told = HashSet::new();
    for &sample in lock.samples.iter().take_while(|sample| sample.asked <= clients_end) {
        for (holder, does) in present(sample) {
            let Some((since, step)) = over.get(holder) else { continue };
            // What was given back to one master another one may still have, and what was moved away may come back.
            let is_another = troubles.failovers.touches(*since - LATE, sample.asked)
                || troubles.removals(lock.name, *since - LATE, sample.asked).next().is_some();
            if is_another {
                continue;
            }
            let disturbances = troubles.clients.touching(*since, sample.asked);
            let since = disturbances.map(|(_, ended, _)| *ended).max().unwrap_or(*since).max(*since);
            let late = troubles.quiet(lock.name, since, sample.asked.max(since));
            if late > LATE && told.insert(holder) {
                violations.push(Violation {
                    promise: Promise::WhatIsDroppedIsGivenBack,
                    lock: lock.name.to_owned(),
                    at: sample.asked,
                    what: format!("{holder} {does} at server {}, {} ms after its end", sample.server, late.as_millis()),
                    evidence: vec![step.named()],
                });
            }
        }
    }
}

/// Who is in the lock or before it.
fn present(sample: &Sample) -> impl Iterator<Item = (&str, &'static str)> {
    let holders = sample.holders.iter().map(|holding| (holding.holder.as_str(), "holds the lock"));
    holders.chain(sample.waiters.iter().map(|waiting| (waiting.holder.as_str(), "waits")))
}

/// Since when this holder wants nothing any more, if all that it did it did by guards. Of one whose process was killed it
/// is not known.
fn over<'l, 'a>(lock: &'l LockHistory<'a>, steps: &[usize]) -> Option<(&'a str, (Moment, &'l Step<'a>))> {
    let mut since = Moment(0);
    let mut last = None;
    for step in steps.iter().map(|place| &lock.steps[*place]) {
        let (answered, answer) = step.operation.answer.as_ref()?;
        let end = if step.is_guard() && matches!(answer, Answer::Granted { .. }) { step.ended? } else { *answered };
        if end >= since {
            (since, last) = (end, Some(step));
        }
    }
    let is_by_guards = steps.iter().any(|place| lock.steps[*place].is_guard());
    let step = last.filter(|step| is_by_guards && !step.call().holder.is_empty())?;
    Some((step.who(), (since, step)))
}

#[cfg(test)]
mod tests {
    use super::Promise::WhatIsDroppedIsGivenBack;
    use crate::checker::written::{Written, failover, granted, refused, take, unknown};
    use crate::history::Side::Plain;
    use crate::history::{Reach, Request};

    fn guard() -> Request {
        Request::Guard { side: Plain, lease_ms: 30_000, fenced: false, replicas: 0, majority: false }
    }

    fn others() -> Written {
        Written::default().did("o", take(10), (9_000, 9_001), refused(5))
    }

    /// Somebody else is at work for longer.
    fn dropped_at(at: u64) -> Written {
        others().did("g", guard(), (0, 10), granted()).vouched("g", 11, 20).ended("g", at)
    }

    #[test]
    fn it_may_take_a_while() {
        assert_eq!(dropped_at(100).seen(2_500, &[("g", Plain)], &[]).broken(), []);
        assert_eq!(dropped_at(100).seen(4_000, &[("h", Plain)], &[]).broken(), []);
        assert_eq!(dropped_at(2_000).seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }

    #[test]
    fn it_may_not_be_kept() {
        assert_eq!(dropped_at(100).seen(4_000, &[("g", Plain)], &[]).broken(), [WhatIsDroppedIsGivenBack]);
        let given_up = others().did("g", guard(), (0, 100), unknown());
        assert_eq!(given_up.seen(4_000, &[("h", Plain)], &[("g", Plain, 0)]).broken(), [WhatIsDroppedIsGivenBack]);
    }

    #[test]
    fn whoever_has_ended_gives_nothing_back() {
        let alone = Written::default().did("g", guard(), (0, 10), granted()).vouched("g", 11, 20).ended("g", 100);
        assert_eq!(alone.seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }

    #[test]
    fn whoever_cannot_is_excused() {
        let held = || dropped_at(100).seen(4_000, &[("g", Plain)], &[]);
        assert_eq!(held().troubled((200, 2_500), failover()).broken(), []);
        assert_eq!(held().troubled((200, 2_500), Reach::Clients).broken(), []);
        assert_eq!(held().troubled((200, 300), Reach::Clients).broken(), [WhatIsDroppedIsGivenBack]);
        // Its process need only connect anew.
        assert_eq!(held().troubled((200, 2_500), Reach::Answers).broken(), [WhatIsDroppedIsGivenBack]);
        // Killed before its end was written.
        let killed = others().did("g", guard(), (0, 10), granted());
        assert_eq!(killed.seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }
}
