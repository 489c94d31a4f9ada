//! Whether all that was answered about a lock can have come from one lock that does one thing after the other.
//!
//! This is asked of plain locks whose every step is recorded, and only where no server forgot anything and no clock was
//! moved. It is the hardest question of the checker: each operation took effect at some moment between its call and its
//! answer, and there must be one order in which all answers are right.

mod search;
mod state;

use super::by_lock::LockHistory;
use super::spans::Spans;
use super::verdict::{ANSWERS_ARE_EXPLAINED, Verdict};
use crate::history::{Moment, Operation, Request, Side};
use search::{Found, search};
use state::{Deed, Event};

/// How many steps a search may take, per operation and at least. What is not found by then stays undecided.
const STEPS_PER_OPERATION: u64 = 20;
const STEPS: u64 = 200_000;

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let is_whole = lock.troubles.failovers.is_empty() && lock.troubles.clock_steps.is_empty();
    if !is_whole || lock.steps.is_empty() || !lock.steps.iter().all(|step| is_recorded(step)) {
        return;
    }
    let (events, steps) = events(lock);
    let budget = STEPS + STEPS_PER_OPERATION * events.len() as u64;
    match search(&events, &changed(lock), budget) {
        Found::Undecided => return verdict.figures.add("undecided", 1),
        Found::NoOrder(stuck) => {
            let step = |event: usize| steps[events[event].place];
            let blocked = step(stuck.blocked);
            let what = format!(
                "no order of these operations explains the answers: {} of {} can be put in an order, but then not {:?}, \
                 answered {:?}",
                stuck.explained,
                events.len(),
                blocked.call,
                blocked.known_answer(),
            );
            let evidence: Vec<&Operation> = stuck.before.into_iter().chain([stuck.blocked]).map(step).collect();
            let at = blocked.answer.as_ref().map_or(blocked.call.at, |(at, _)| *at);
            verdict.violations.push(lock.violation(ANSWERS_ARE_EXPLAINED, at, what, &evidence));
        }
        Found::Order => {}
    }
    verdict.figures.add("held against the model", events.len() as u64);
}

/// By commands or scripts, on a plain lock.
fn is_recorded(step: &Operation) -> bool {
    match step.call.request {
        Request::Acquire { side, .. } | Request::Release { side, .. } => side == Side::Plain,
        Request::Renew { .. } | Request::Cancel { .. } => true,
        Request::Guard { .. } => false,
    }
}

/// What was done or may have been done, and the steps of it. What failed was not.
fn events<'a>(lock: &LockHistory<'a>) -> (Vec<Event>, Vec<&'a Operation>) {
    let (mut events, mut all) = (Vec::new(), Vec::new());
    for (holder, steps) in lock.holders.iter().enumerate() {
        let leases = leases_by_script(steps);
        let mut add = |step: &'a Operation, called, done, deed| {
            events.push(Event { place: all.len(), holder, called, done, deed, leases });
            all.push(step);
        };
        for &step in steps {
            if let Some(deed) = Deed::of(step) {
                add(step, step.asked, step.done(), deed);
            }
        }
        for step in steps.iter().copied().filter(|step| is_left(step)) {
            add(step, step.call.at, Moment(u64::MAX), Deed::GiveUnknown { all: false });
        }
    }
    events.sort_by_key(|event| event.called);
    (events, all)
}

/// Whether its client may have gone while it was blocked: the server releases the one hold that it was granted then.
fn is_left(step: &Operation) -> bool {
    step.session().is_none() && step.call.request.waits() && step.known_answer().is_none()
}

/// The shortest and the longest lease that a script may restart when it gives back one hold of several.
fn leases_by_script(steps: &[&Operation]) -> Option<(u64, u64)> {
    let leases = || steps.iter().filter_map(|step| step.call.request.lease_ms());
    steps.iter().any(|step| step.is_by_script()).then(|| Some((leases().min()?, leases().max()?)))?
}

/// When somebody may have done anything to it.
fn changed(lock: &LockHistory) -> Spans<()> {
    let changes = lock.troubles.removals(lock.name, Moment(0), Moment(u64::MAX));
    Spans::from(changes.map(|trouble| (trouble.began, trouble.ended, ())))
}

#[cfg(test)]
mod tests {
    use super::ANSWERS_ARE_EXPLAINED;
    use crate::checker::check;
    use crate::checker::written::{Written, give, granted, refused, removed, renew, script, take, unknown, wait};
    use crate::history::{Answer, Request, Side};

    fn explained(history: Written) -> bool {
        let verdict = check(&history.records());
        assert_eq!(verdict.figures.of("undecided"), 0);
        !verdict.violations.iter().any(|violation| violation.promise == ANSWERS_ARE_EXPLAINED)
    }

    fn first() -> Written {
        Written::default().did("a", take(100), (0, 1), granted())
    }

    fn given(history: Written, at: u64, answer: i64) -> Written {
        history.did("a", give(Side::Plain), (at, at + 1), Answer::Released(Some(answer)))
    }

    #[test]
    fn turns_are_right() {
        let turns = given(first(), 10, 1).did("b", wait(100, 0), (5, 12), granted());
        assert!(explained(turns.did("c", take(100), (20, 21), refused(90))));
        assert!(explained(given(given(first().did("a", take(100), (3, 4), granted()), 5, 0), 7, 1)));
        assert!(explained(first().did("b", take(10), (100, 102), granted())));
    }

    #[test]
    fn two_at_once_are_wrong() {
        assert!(!explained(first().did("b", take(100), (10, 11), granted())));
    }

    #[test]
    fn counts_have_to_fit() {
        let all = |answer| {
            let twice = first().did("a", take(100), (3, 4), granted());
            twice.did("a", Request::Release { side: Side::Plain, all: true }, (5, 6), Answer::Released(Some(answer)))
        };
        assert!(explained(all(1)));
        assert!(!explained(all(0)));
        assert!(!explained(given(first(), 10, 0)));
        assert!(!explained(given(given(first(), 10, 1), 12, 1)));
        assert!(!explained(given(first().did("a", take(100), (3, 4), granted()), 5, 1)));
    }

    #[test]
    fn who_has_it_is_not_refused() {
        assert!(!explained(first().did("a", take(100), (10, 11), refused(50))));
        assert!(explained(first().did("a", take(100), (100, 101), refused(50))));
    }

    #[test]
    fn scripts_are_refused_only_what_somebody_holds_and_told_the_truth() {
        assert!(explained(first().did("b", script(100), (10, 11), refused(90))));
        assert!(!explained(first().did("b", script(100), (10, 11), refused(40))));
        assert!(!explained(given(first(), 10, 1).did("b", script(100), (20, 21), refused(90))));
    }

    #[test]
    fn what_ended_cannot_be_renewed() {
        assert!(!explained(first().did("a", renew(100), (200, 201), Answer::Renewed(true))));
        let renewed = first().did("a", renew(100), (90, 91), Answer::Renewed(true));
        assert!(explained(given(renewed, 150, 1)));
    }

    #[test]
    fn what_nobody_knows_may_have_happened_or_not() {
        let doubtful = || Written::default().did("a", take(100), (0, 5), unknown());
        assert!(explained(doubtful().did("b", take(100), (10, 11), granted())));
        assert!(explained(given(doubtful(), 10, 1)));
        assert!(!explained(given(given(doubtful(), 10, 1), 12, 1)));
    }

    #[test]
    fn somebody_may_have_done_anything_but_only_then() {
        let removed = |at| first().troubled((at, at + 2), removed(false)).did("b", take(100), (10, 11), granted());
        assert!(explained(removed(5)));
        assert!(!explained(removed(12)));
    }

    #[test]
    fn what_a_client_was_granted_that_has_gone_is_taken_away() {
        let gone = |answer| {
            let waits = Written::default().did("a", wait(5_000, 4_000), (0, 500), answer);
            let refused = waits.did("b", script(100), (300, 301), refused(4_900));
            explained(refused.did("c", take(100), (600, 601), granted()))
        };
        assert!(gone(unknown()));
        assert!(!gone(granted()));
    }

    #[test]
    fn what_a_ticket_was_granted_is_not_taken_away() {
        let lost = || Written::default().queued("a", 5_000, (0, 1)).outcome("a", 1, 700, unknown());
        let held = || lost().did("b", script(100), (500, 501), refused(4_700));
        assert!(explained(held()));
        assert!(!explained(held().did("c", take(100), (600, 601), granted())));
    }

    #[test]
    fn a_ticket_that_is_asked_for_again_was_asked_for_before() {
        let again = || Written::default().queued("a", 400, (0, 5)).outcome("a", 1, 30, unknown());
        let again = || again().queued("a", 400, (31, 38)).outcome("a", 2, 39, granted());
        // It was granted at 5, and not when it was asked for again.
        assert!(explained(again().did("b", script(100), (40, 48), refused(360))));
        assert!(!explained(again().did("b", script(100), (40, 48), refused(300))));
    }
}
