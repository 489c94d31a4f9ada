//! Locks that were granted to a session that nobody attended to: to a process that may be gone.
//!
//! Whoever is seen unattended stays so until a poll arrives. So if none can have been under way, and none was sent, until the
//! holder was seen in the lock, it was granted to nobody who could have been told.

use super::by_lock::{LockHistory, Step};
use super::sessions::Sessions;
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Sample, WaitsBy};
use std::collections::HashMap;
use std::time::Duration;

/// What a poll may be under way, where nobody makes trouble.
const UNDER_WAY: Duration = Duration::from_millis(500);

pub fn check(lock: &LockHistory, sessions: &Sessions, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let mut unattended: HashMap<(&str, &str), &Sample> = HashMap::new();
    let steps: HashMap<&str, &Step> = lock.steps.iter().map(|step| (step.who(), step)).collect();
    for &sample in &lock.samples {
        let server = sample.server.as_str();
        for holding in sample.holders.iter().filter(|holding| holding.is_live()) {
            let holder = holding.holder.as_str();
            let (Some(before), Some(step)) = (unattended.remove(&(server, holder)), steps.get(holder)) else {
                continue;
            };
            if is_absent(lock, holder, (before, sample), sessions, troubles) {
                violations.push(violation(lock, step, before, sample));
            }
        }
        unattended.retain(|(at, _), _| *at != server);
        // Whoever has the lock by another session has not got it by this one.
        for waiting in sample.waiters.iter().filter(|waiting| !holds(sample, &waiting.holder)) {
            if let WaitsBy::Ticket { is_attended: false, .. } = waiting.by {
                unattended.insert((server, &waiting.holder), sample);
            }
        }
    }
}

fn holds(sample: &Sample, holder: &str) -> bool {
    sample.holders.iter().any(|holding| holding.is_live() && holding.holder == holder)
}

/// Whether nothing can have come from it between two looks.
fn is_absent(
    lock: &LockHistory,
    holder: &str,
    (before, after): (&Sample, &Sample),
    sessions: &Sessions,
    troubles: &Troubles,
) -> bool {
    let since = before.asked - UNDER_WAY;
    let steps = lock.steps.iter().filter(|step| step.who() == holder && step.asks_for().is_some());
    let mut sessions = steps.map(|step| step.session().and_then(|name| sessions.get(name)));
    sessions
        .all(|session| session.is_some_and(|session| !session.may_come_between(since, before.asked, after.answered)))
        && !troubles.clients.touches(since, after.answered)
        && !troubles.new_starts.touches(since, after.answered)
        && !troubles.clock_steps.touches(since, after.answered)
}

fn violation(lock: &LockHistory, step: &Step, before: &Sample, after: &Sample) -> Violation {
    let (client, number) = step.named();
    Violation {
        promise: Promise::NoGrantToTheAbsent,
        lock: lock.name.to_owned(),
        at: after.asked,
        what: format!(
            "{} was granted the lock by server {} within {:.1} ms after nobody attended to its session",
            step.who(),
            after.server,
            after.answered.since(before.asked).as_secs_f64() * 1e3,
        ),
        evidence: vec![(client, number)],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::NoGrantToTheAbsent;
    use crate::checker::written::{Written, restart};
    use crate::history::Reach;
    use crate::history::Side::Plain;

    /// A ticket that nobody attends to at 900 is seen in the lock at 920.
    fn granted(is_attended: bool, polls: &[(u64, u64)]) -> Written {
        let history = Written::default().polled((0, 1), 1, 0, &[]).queued("a", 5_000, (2, 3));
        let history = polls.iter().fold(history, |history, time| history.polled(*time, 1, 0, &[]));
        let history = history.seen_by_ticket(900, &[("x", Plain)], &[("a", 3, is_attended)]);
        history.seen_with(920, 4_990, &[("a", Plain)], &[])
    }

    #[test]
    fn whoever_is_there_is_granted() {
        assert_eq!(granted(true, &[]).broken(), []);
        assert_eq!(granted(false, &[(910, 930)]).broken(), [], "which has come in between");
        assert_eq!(granted(false, &[(600, 930)]).broken(), [], "which may have come in between");
    }

    #[test]
    fn whoever_has_it_already_is_not_granted_it() {
        let history = Written::default().polled((0, 1), 1, 0, &[]).queued("a", 5_000, (2, 3));
        let history = history.seen_by_ticket(900, &[("a", Plain)], &[("a", 3, false)]);
        assert_eq!(history.seen_with(920, 4_990, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn nobody_is_not() {
        assert_eq!(granted(false, &[]).broken(), [NoGrantToTheAbsent]);
        assert_eq!(granted(false, &[(600, 700), (921, 930)]).broken(), [NoGrantToTheAbsent]);
        assert_eq!(granted(false, &[]).polled_in_vain(300).broken(), [NoGrantToTheAbsent]);
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(granted(false, &[]).troubled((500, 510), Reach::Clients).broken(), []);
        assert_eq!(granted(false, &[]).troubled((500, 510), Reach::Answers).broken(), [NoGrantToTheAbsent]);
        assert_eq!(granted(false, &[]).troubled((500, 510), restart()).broken(), []);
    }
}
