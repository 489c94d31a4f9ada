//! Tickets that were taken back, and of which something was seen or told all the same.

use super::by_lock::LockHistory;
use super::verdict::{Verdict, WHAT_IS_TAKEN_BACK_IS_GONE};
use crate::history::{Answer, Moment, Operation, Request};

/// A holder whose ticket was taken back.
struct TakenBack<'a> {
    cancel: &'a Operation,
    session: &'a str,
    /// Before that it asked for nothing.
    began: Moment,
    /// It was not granted, and nothing says that its holder had the lock before.
    holds_nothing: bool,
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let all = lock.each(|steps| taken_back(lock, steps));
    lock.tell_once(WHAT_IS_TAKEN_BACK_IS_GONE, verdict, |seen| {
        let it = all.get(seen.holder).filter(|it| seen.waits.is_some() || it.holds_nothing)?;
        let asked = seen.sample.asked;
        // What is given back to one master another one may still have, and what was moved away may come back.
        let is_elsewhere = lock.troubles.new_starts.touches(it.began, asked) || lock.is_removed(it.began, asked);
        let after = asked.since(it.cancel.done()).as_millis();
        let is_wrong = asked > it.cancel.done() && !is_elsewhere;
        is_wrong.then(|| (format!("{after} ms after its ticket of session {} was taken back", it.session), it.cancel))
    });
    for steps in &lock.holders {
        if let Some((it, (at, what))) = all.get(steps[0].who()).and_then(|it| Some((it, told_later(lock, it)?))) {
            verdict.violations.push(lock.violation(WHAT_IS_TAKEN_BACK_IS_GONE, at, what, &[it.cancel]));
        }
    }
}

/// If none of its attempts can still be under way when its ticket is taken back.
fn taken_back<'a>(lock: &LockHistory<'a>, steps: &[&'a Operation]) -> Option<TakenBack<'a>> {
    let (cancel, session, ticket) = steps.iter().find_map(|step| match (&step.call.request, step.known_answer()) {
        (Request::Cancel { session }, Some(Answer::Cancelled(ticket))) => Some((*step, &**session, *ticket)),
        _ => None,
    })?;
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some()).peekable();
    asked.peek()?;
    if !asked.clone().all(|step| step.has_arrived_by(cancel.call.at) && step.session() == Some(session)) {
        return None;
    }
    let was_granted_at_once = asked.any(|step| step.queued.is_none() && step.granted().is_some());
    let was_renewed = steps.iter().any(|step| step.is_renewal());
    let may_be_done_with = lock.sessions.get(session).is_none_or(|it| it.may_be_acknowledged(cancel.who()));
    let holds_nothing = ticket == 1 && !was_granted_at_once && !was_renewed && !may_be_done_with;
    Some(TakenBack { cancel, session, began: steps[0].call.at, holds_nothing })
}

/// By a poll that was sent after it had been taken back. The answer to an earlier one may have been sent before, and be read
/// at any time: some sessions do not read for a while. What was taken back at one master, another one has in a session of
/// that name and tells when it is the master again.
fn told_later(lock: &LockHistory, it: &TakenBack) -> Option<(Moment, String)> {
    let mut told = lock.sessions.get(it.session)?.told(it.cancel.who()).iter();
    let is_elsewhere = |at: Moment| lock.troubles.failovers.touches(it.began, at);
    let late = told.find(|telling| telling.poll.at > it.cancel.done() && !is_elsewhere(telling.at))?;
    let (number, event) = (late.poll.number, late.event);
    Some((late.at, format!("poll {number} of session {} was told {event:?} after it was taken back", it.session)))
}

#[cfg(test)]
mod tests {
    use super::WHAT_IS_TAKEN_BACK_IS_GONE;
    use crate::checker::written::{Written, by_ticket, cancel, failover, granted, renew, restart, unknown};
    use crate::history::Answer;
    use crate::history::Side::{Plain, Read};

    fn taken_back(ticket: i64) -> Written {
        let history = Written::default().queued("a", 5_000, (0, 1)).outcome("a", 1, 20, unknown());
        history.polled((0, 300), 1, 0, &[]).did("a", cancel(), (20, 30), Answer::Cancelled(ticket))
    }

    #[test]
    fn before_it_was_taken_back_it_may_be_anything() {
        let history = taken_back(1).seen_by_ticket(25, &[], &[("a", 1, true)]);
        assert_eq!(history.seen(28, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn it_waits_no_more() {
        let waits = |ticket| taken_back(ticket).seen_by_ticket(40, &[("x", Plain)], &[("a", 1, true)]);
        assert_eq!(waits(1).broken(), [WHAT_IS_TAKEN_BACK_IS_GONE]);
        assert_eq!(waits(0).broken(), [WHAT_IS_TAKEN_BACK_IS_GONE]);
        assert_eq!(waits(1).called("a", by_ticket(5_000), 2).broken(), [], "which may be under way");
        assert_eq!(waits(1).troubled((10, 15), failover()).broken(), []);
    }

    #[test]
    fn it_holds_nothing_if_it_was_not_granted() {
        let holds = |history: Written| history.seen(40, &[("a", Plain)], &[]).broken();
        assert_eq!(holds(taken_back(1)), [WHAT_IS_TAKEN_BACK_IS_GONE]);
        assert_eq!(holds(taken_back(0)), []);
        assert_eq!(holds(taken_back(2)), []);
        assert_eq!(holds(taken_back(1).did("a", renew(5_000), (10, 12), Answer::Renewed(true))), []);
        let told = taken_back(1).polled((2, 9), 1, 0, &[(1, "a", granted())]);
        assert_eq!(holds(told.polled((10, 15), 1, 1, &[])), []);
    }

    #[test]
    fn a_read_hold_whose_lease_has_ended_is_none() {
        let listed = |left_ms| taken_back(1).seen_with(40, left_ms, &[("a", Read)], &[]).broken();
        assert_eq!(listed(-2), []);
        assert_eq!(listed(100), [WHAT_IS_TAKEN_BACK_IS_GONE]);
    }

    #[test]
    fn it_is_not_told_later() {
        let told = |time| taken_back(1).polled(time, 1, 0, &[(1, "a", granted())]);
        assert_eq!(told((10, 40)).broken(), [], "it was under way");
        assert_eq!(told((31, 40)).broken(), [WHAT_IS_TAKEN_BACK_IS_GONE]);
        assert_eq!(told((10, 2_500)).broken(), [], "and was not read before");
        assert_eq!(told((500, 510)).troubled((25, 40), failover()).broken(), [], "by another master");
        assert_eq!(told((500, 510)).troubled((25, 40), restart()).broken(), [WHAT_IS_TAKEN_BACK_IS_GONE]);
    }
}
