//! Tickets that were taken back, and of which something was seen or told all the same.

use super::by_lock::{LockHistory, Step};
use super::sessions::Sessions;
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Answer, Moment, Request, Sample};
use std::collections::HashMap;

/// A holder whose ticket was taken back.
struct TakenBack<'l, 'a> {
    cancel: &'l Step<'a>,
    session: &'a str,
    /// Before that it asked for nothing.
    began: Moment,
    /// It was found, and nothing says that it was acknowledged or renewed before: so nothing is held.
    holds_nothing: bool,
}

pub fn check(lock: &LockHistory, sessions: &Sessions, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let taken_back: HashMap<&str, TakenBack> =
        lock.holders.iter().filter_map(|steps| taken_back(lock, steps, sessions)).collect();
    if taken_back.is_empty() {
        return;
    }
    let mut told: Vec<&str> = Vec::new();
    for &sample in &lock.samples {
        for (holder, does) in present(sample) {
            let Some(it) = taken_back.get(holder).filter(|it| sample.asked > it.cancel.done()) else { continue };
            let is_wrong = (does == WAITS || it.holds_nothing) && !is_elsewhere(lock, it, sample, troubles);
            if is_wrong && !told.contains(&holder) {
                told.push(holder);
                let after = sample.asked.since(it.cancel.done()).as_millis();
                let what = format!("{holder} {does} at server {}, {after} ms after", sample.server);
                violations.push(violation(lock, it, sample.asked, &what));
            }
        }
    }
    let mut taken_back: Vec<(&str, TakenBack)> = taken_back.into_iter().collect();
    taken_back.sort_by_key(|(holder, _)| *holder);
    for (ticket, it) in taken_back {
        if let Some((at, what)) = told_later(ticket, &it, sessions, troubles) {
            violations.push(violation(lock, &it, at, &what));
        }
    }
}

const HOLDS: &str = "holds the lock";
const WAITS: &str = "waits";

fn present(sample: &Sample) -> impl Iterator<Item = (&str, &'static str)> {
    let holders =
        sample.holders.iter().filter(|holding| holding.is_live()).map(|holding| (holding.holder.as_str(), HOLDS));
    holders.chain(sample.waiters.iter().map(|waiting| (waiting.holder.as_str(), WAITS)))
}

/// What is given back to one master another one may still have, and what was moved away may come back.
fn is_elsewhere(lock: &LockHistory, it: &TakenBack, sample: &Sample, troubles: &Troubles) -> bool {
    troubles.new_starts.touches(it.began, sample.asked)
        || troubles.removals(lock.name, it.began, sample.asked).next().is_some()
}

/// If none of its attempts can still be under way when its ticket is taken back.
fn taken_back<'l, 'a>(
    lock: &'l LockHistory<'a>,
    places: &[usize],
    sessions: &Sessions,
) -> Option<(&'a str, TakenBack<'l, 'a>)> {
    let steps: Vec<&Step> = places.iter().map(|place| &lock.steps[*place]).collect();
    let (cancel, was_found) = steps.iter().find_map(|step| match (&step.call().request, step.answer()) {
        (Request::Cancel { .. }, Some(Answer::Cancelled(Some(found)))) => Some((*step, *found)),
        _ => None,
    })?;
    let Request::Cancel { session } = &cancel.call().request else { return None };
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    let arrived = |step: &&Step| step.has_arrived_by(cancel.call().at) && step.session() == Some(session.as_str());
    if !asked.clone().all(arrived) || asked.clone().next().is_none() {
        return None;
    }
    let was_granted_at_once = asked.any(|step| step.operation.queued.is_none() && step.operation.granted().is_some());
    let was_renewed = steps.iter().any(|step| matches!(step.call().request, Request::Renew { .. }));
    let may_be_done_with = sessions.get(session).is_none_or(|it| it.may_be_acknowledged(cancel.who()));
    let holds_nothing = was_found && !was_granted_at_once && !was_renewed && !may_be_done_with;
    let began = steps.iter().map(|step| step.call().at).min()?;
    Some((cancel.who(), TakenBack { cancel, session, began, holds_nothing }))
}

/// By a poll that was sent after it had been taken back. The answer to an earlier one may have been sent before, and be read
/// at any time: some sessions do not read for a while. What was taken back at one master, another one has in a session of
/// that name and tells when it is the master again.
fn told_later(ticket: &str, it: &TakenBack, sessions: &Sessions, troubles: &Troubles) -> Option<(Moment, String)> {
    let mut told = sessions.get(it.session)?.told(ticket).iter();
    let is_elsewhere = |at: Moment| troubles.failovers.touches(it.began, at);
    let late = told.find(|telling| telling.poll.at > it.cancel.done() && !is_elsewhere(telling.at))?;
    Some((late.at, format!("poll {} was told {:?} after", late.poll.number, late.event)))
}

fn violation(lock: &LockHistory, it: &TakenBack, at: Moment, what: &str) -> Violation {
    let (client, number) = it.cancel.named();
    Violation {
        promise: Promise::WhatIsTakenBackIsGone,
        lock: lock.name.to_owned(),
        at,
        what: format!("{what} its ticket of session {} was taken back by call {number} of {client}", it.session),
        evidence: vec![(client, number)],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::WhatIsTakenBackIsGone;
    use crate::checker::written::{Written, by_ticket, cancel, failover, granted, renew, restart, unknown};
    use crate::history::Answer;
    use crate::history::Side::{Plain, Read};

    fn taken_back(found: Option<bool>) -> Written {
        let history = Written::default().queued("a", 5_000, (0, 1)).outcome("a", 1, 20, unknown());
        history.polled((0, 300), 1, 0, &[]).did("a", cancel(), (20, 30), Answer::Cancelled(found))
    }

    #[test]
    fn before_it_was_taken_back_it_may_be_anything() {
        let history = taken_back(Some(true)).seen_by_ticket(25, &[], &[("a", 1, true)]);
        assert_eq!(history.seen(28, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn it_waits_no_more() {
        let waits = |found| taken_back(found).seen_by_ticket(40, &[("x", Plain)], &[("a", 1, true)]);
        assert_eq!(waits(Some(true)).broken(), [WhatIsTakenBackIsGone]);
        assert_eq!(waits(Some(false)).broken(), [WhatIsTakenBackIsGone]);
        assert_eq!(waits(None).broken(), []);
        assert_eq!(waits(Some(true)).called("a", by_ticket(5_000), 2).broken(), [], "which may be under way");
        assert_eq!(waits(Some(true)).troubled((10, 15), failover()).broken(), []);
    }

    #[test]
    fn it_holds_nothing_if_it_was_found_and_nobody_knew_of_it() {
        let holds = |history: Written| history.seen(40, &[("a", Plain)], &[]).broken();
        assert_eq!(holds(taken_back(Some(true))), [WhatIsTakenBackIsGone]);
        assert_eq!(holds(taken_back(Some(false))), []);
        assert_eq!(holds(taken_back(Some(true)).did("a", renew(5_000), (10, 12), Answer::Renewed(true))), []);
        let told = taken_back(Some(true)).polled((2, 9), 1, 0, &[(1, "a", granted())]);
        assert_eq!(holds(told.polled((10, 15), 1, 1, &[])), []);
    }

    #[test]
    fn a_read_hold_whose_lease_has_ended_is_none() {
        let listed = |left_ms| taken_back(Some(true)).seen_with(40, left_ms, &[("a", Read)], &[]).broken();
        assert_eq!(listed(-2), []);
        assert_eq!(listed(100), [WhatIsTakenBackIsGone]);
    }

    #[test]
    fn it_is_not_told_later() {
        let told = |time| taken_back(Some(true)).polled(time, 1, 0, &[(1, "a", granted())]);
        assert_eq!(told((10, 40)).broken(), [], "it was under way");
        assert_eq!(told((31, 40)).broken(), [WhatIsTakenBackIsGone]);
        assert_eq!(told((10, 2_500)).broken(), [], "and was not read before");
        assert_eq!(told((500, 510)).troubled((25, 40), failover()).broken(), [], "by another master");
        assert_eq!(told((500, 510)).troubled((25, 40), restart()).broken(), [WhatIsTakenBackIsGone]);
    }
}
