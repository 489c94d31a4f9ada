//! Somebody who came later and was served first.

use super::by_lock::LockHistory;
use super::verdict::{FIRST_COME_FIRST_SERVED, Verdict};
use super::waits::{Wait, waits};
use crate::history::{Moment, Operation, Request};

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let mut waits = waits_in_one_queue(lock);
    // Whoever waits for several locks may be passed: see `sets`.
    waits.retain(|wait| !wait.waiting.is_for_several());
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.begun_by()));
    let mut arrivals: Vec<(Moment, &Operation)> = arrivals(lock).collect();
    arrivals.sort_by_key(|(_, step)| step.call.at);
    // Of all who came later than the wait in question, the one who was served first.
    let mut first: Option<(Moment, &Operation)> = None;
    for wait in waits {
        let later = arrivals.partition_point(|(_, step)| step.call.at <= wait.begun_by());
        first = arrivals.drain(later..).chain(first).min_by_key(|arrival| arrival.0);
        if let Some((served, step)) = first.filter(|first| first.0 < wait.last.asked) {
            let what = format!(
                "overtaken: {} ({:?} at server {}) waited already when {} called, which was granted; {:?} after that it \
                 waited still",
                wait.waiting.holder.as_str(),
                wait.waiting.by,
                wait.last.server,
                step.who(),
                wait.last.asked.since(served),
            );
            let evidence: Vec<&Operation> =
                lock.last_of(wait.waiting.holder.as_str()).into_iter().chain([step]).collect();
            verdict.violations.push(lock.violation(FIRST_COME_FIRST_SERVED, served, what, &evidence));
        }
    }
}

/// Tickets may be passed while nobody attends to their sessions: see `places`. Elsewhere there may be another queue; and by a
/// clock that was moved nobody knows who has waited how long.
pub fn waits_in_one_queue<'a>(lock: &LockHistory<'a>) -> Vec<Wait<'a>> {
    let mut waits = waits(lock);
    waits.retain(|wait| {
        let (began, ended) = (wait.first.asked, wait.last.answered);
        !wait.waiting.by.is_ticket()
            && !lock.troubles.failovers.touches(began, ended)
            && !lock.troubles.clock_steps.touches(began, ended)
    });
    waits
}

/// Each holder that was let in and had nothing before: when it knew, and by which step. Scripts know of no queue.
pub fn arrivals<'a>(lock: &LockHistory<'a>) -> impl Iterator<Item = (Moment, &'a Operation)> {
    lock.holders.iter().filter_map(|steps| {
        let step = *steps.iter().find(|step| step.asks_for().is_some() && !step.did_nothing())?;
        let knows_the_queue = match step.call.request {
            Request::Acquire { by_script, .. } => !by_script,
            Request::Guard { .. } => true,
            _ => false,
        };
        let (served, _) = step.granted()?;
        knows_the_queue.then_some((served, step))
    })
}

#[cfg(test)]
mod tests {
    use super::FIRST_COME_FIRST_SERVED;
    use crate::checker::written::{Written, failover, granted, script, take, wait};
    use crate::history::Side::Plain;

    /// One waits from 0 on and is seen doing so until 100.
    fn waiting() -> Written {
        let first = Written::default().called("w", wait(50, 0), 0);
        first.seen(10, &[("x", Plain)], &[("w", Plain, 1)]).seen(100, &[("x", Plain)], &[("w", Plain, 1)])
    }

    #[test]
    fn who_was_there_before_may_be_served_before() {
        assert_eq!(waiting().did("b", wait(5, 0), (0, 50), granted()).broken(), []);
        assert_eq!(waiting().did("b", wait(5, 0), (20, 150), granted()).broken(), []);
    }

    #[test]
    fn who_came_later_is_served_later() {
        assert_eq!(waiting().did("b", wait(5, 0), (20, 50), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(waiting().did("b", take(5), (20, 50), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
    }

    #[test]
    fn scripts_and_those_within_may_pass() {
        assert_eq!(waiting().did("b", script(5), (20, 50), granted()).broken(), []);
        let within = Written::default().did("b", take(200), (0, 1), granted());
        let within = within.seen(10, &[("b", Plain)], &[("w", Plain, 1)]).seen(100, &[], &[("w", Plain, 1)]);
        assert_eq!(within.did("b", take(200), (20, 50), granted()).broken(), []);
    }

    #[test]
    fn who_waits_anew_is_behind() {
        let anew = Written::default().seen(10, &[], &[("w", Plain, 1)]).seen(100, &[], &[("w", Plain, 60)]);
        assert_eq!(anew.did("b", wait(5, 0), (20, 50), granted()).broken(), []);
    }

    #[test]
    fn a_failover_makes_new_queues() {
        let history = waiting().troubled((60, 70), failover());
        assert_eq!(history.did("b", wait(5, 0), (20, 50), granted()).broken(), []);
    }
}
