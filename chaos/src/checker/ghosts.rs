//! Locks that were granted to nobody: to one who had been refused, or whose wait somebody had ended.

use super::by_lock::{LockHistory, Step};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use super::waits::{Wait, waits};
use crate::history::{Holding, Moment, Reach, Request, Sample, Side, Trouble};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A wait that was ended may have been granted just before; and it takes a moment to say so.
const LEEWAY: Duration = Duration::from_millis(300);

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let refused: HashMap<&str, &Step> = lock.holders.iter().filter_map(|steps| refused(lock, steps)).collect();
    let ended = ended_waits(lock, troubles);
    let mut told = HashSet::new();
    for &sample in &lock.samples {
        for holding in &sample.holders {
            let holder = holding.holder.as_str();
            let ghost = refused.get(holder).filter(|step| sample.asked > step.done());
            let revenant = ended.get(holder).filter(|it| it.is_granted_later(sample, holding));
            let what = match (ghost, revenant) {
                (Some(step), _) => (*step, "it was refused by"),
                (_, Some(ended)) => (ended.step, "somebody had ended"),
                _ => continue,
            };
            if told.insert(holder) {
                violations.push(violation(lock, sample, holding, what));
            }
        }
    }
}

/// A holder that asked, and was never granted anything. Of guards only the last word is known, and what they have asked
/// for in doubt they give back themselves, later.
fn refused<'l, 'a>(lock: &'l LockHistory<'a>, steps: &[usize]) -> Option<(&'l str, &'l Step<'a>)> {
    let asked: Vec<&Step> =
        steps.iter().map(|place| &lock.steps[*place]).filter(|step| step.asks_for().is_some()).collect();
    let is_refused = |step: &&Step| step.did_nothing() && !step.is_guard();
    let last = asked.iter().max_by_key(|step| step.done())?;
    asked.iter().all(is_refused).then(|| (last.who(), *last))
}

/// The only attempt of a holder, which waited when its wait was ended.
struct Ended<'l, 'a> {
    step: &'l Step<'a>,
    trouble: &'a Trouble,
    lease_ms: u64,
}

impl Ended<'_, '_> {
    fn is_granted_later(&self, sample: &Sample, holding: &Holding) -> bool {
        let left = if holding.side == Side::Read { holding.ttl_ms } else { Some(sample.ttl_ms) };
        let Some(left) = left.and_then(|left| u64::try_from(left).ok()) else { return false };
        let granted = sample.asked + Duration::from_millis(left) - Duration::from_millis(self.lease_ms);
        granted > self.trouble.ended + LEEWAY
    }
}

fn ended_waits<'l, 'a>(lock: &'l LockHistory<'a>, troubles: &Troubles<'a>) -> HashMap<&'l str, Ended<'l, 'a>> {
    let mut ended = HashMap::new();
    let killed: HashMap<i64, Vec<&'a Trouble>> = killed(troubles);
    let servers: HashSet<&str> = lock.samples.iter().map(|sample| sample.server.as_str()).collect();
    // Clients have a number per server, and the trouble does not say of which.
    if killed.is_empty() || servers.len() > 1 || !troubles.clock_steps.is_empty() || !troubles.failovers.is_empty() {
        return ended;
    }
    let alone: HashMap<&str, &Step> = lock.holders.iter().filter_map(|steps| alone(lock, steps)).collect();
    for wait in waits(lock) {
        let Some(step) = alone.get(wait.holder) else { continue };
        let Request::Acquire { lease_ms, .. } = step.call().request else { continue };
        let troubles = wait.by.client().and_then(|client_id| killed.get(&client_id));
        for trouble in troubles.into_iter().flatten() {
            if waited_then(&wait, step, trouble) {
                ended.insert(step.who(), Ended { step, trouble, lease_ms });
            }
        }
    }
    ended
}

fn killed<'a>(troubles: &Troubles<'a>) -> HashMap<i64, Vec<&'a Trouble>> {
    let mut killed: HashMap<i64, Vec<&Trouble>> = HashMap::new();
    for trouble in &troubles.all {
        if let Reach::Wait { client_id } = trouble.reach {
            killed.entry(client_id).or_default().push(trouble);
        }
    }
    killed
}

fn waited_then(wait: &Wait, step: &Step, trouble: &Trouble) -> bool {
    let answered = step.operation.answer.as_ref().map_or(Moment(u64::MAX), |(at, _)| *at);
    step.call().at < trouble.began && trouble.began < answered && wait.first.asked < trouble.ended
}

/// A holder with one attempt only, by command, which it was not granted. It may have tried to give it back all the
/// same.
fn alone<'l, 'a>(lock: &'l LockHistory<'a>, steps: &[usize]) -> Option<(&'l str, &'l Step<'a>)> {
    let is_release = |step: &&Step| matches!(step.call().request, Request::Release { .. });
    let mut others = steps.iter().map(|place| &lock.steps[*place]).filter(|step| !is_release(step));
    let step = others.next().filter(|_| others.next().is_none())?;
    let is_attempt = matches!(step.call().request, Request::Acquire { by_script: false, .. });
    (is_attempt && step.operation.granted().is_none()).then(|| (step.who(), step))
}

fn violation(lock: &LockHistory, sample: &Sample, holding: &Holding, (step, why): (&Step, &str)) -> Violation {
    let (client, number) = step.named();
    Violation {
        promise: Promise::NoGrantToNobody,
        lock: lock.name.to_owned(),
        at: sample.asked,
        what: format!(
            "granted to nobody: {} was seen with {} on server {}, although {why} call {number} of {client}",
            holding.holder,
            holding.side.word(),
            sample.server,
        ),
        evidence: vec![(client, number)],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::NoGrantToNobody;
    use crate::checker::written::{Written, granted, refused, unknown, wait};
    use crate::history::Side::Plain;
    use crate::history::{Answer, Reach};

    fn asked(answer: Answer) -> Written {
        Written::default().did("a", wait(1_000, 50), (0, 60), answer)
    }

    #[test]
    fn who_was_granted_may_be_seen() {
        assert_eq!(asked(granted()).seen(70, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(asked(unknown()).seen(70, &[("a", Plain)], &[]).broken(), []);
        let again = asked(refused(5)).did("a", wait(1_000, 50), (61, 65), granted());
        assert_eq!(again.seen(70, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn who_was_refused_may_not() {
        assert_eq!(asked(refused(5)).seen(70, &[("a", Plain)], &[]).broken(), [NoGrantToNobody]);
    }

    #[test]
    fn what_is_seen_before_the_answer_proves_nothing() {
        assert_eq!(asked(refused(5)).seen(30, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn who_was_told_of_an_error_may_not() {
        assert_eq!(asked(Answer::Failed("no".to_owned())).seen(70, &[("a", Plain)], &[]).broken(), [NoGrantToNobody]);
    }

    #[test]
    fn whose_wait_was_ended_is_not_granted_later() {
        let ended = || {
            let seen = asked(unknown()).seen(10, &[("x", Plain)], &[("a", Plain, 0)]);
            seen.troubled((20, 30), Reach::Wait { client_id: 7 })
        };
        // With 600 ms left of a second, it was granted at 400.
        assert_eq!(ended().seen_with(800, 600, &[("a", Plain)], &[]).broken(), [NoGrantToNobody]);
        assert_eq!(ended().seen_with(800, 210, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(asked(unknown()).seen_with(800, 600, &[("a", Plain)], &[]).broken(), []);
    }
}
