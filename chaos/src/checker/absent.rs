//! Locks that were granted to a session that nobody attended to: to a process that may be gone.
//!
//! Whoever is seen unattended stays so until a poll arrives. So if none can have been under way, and none was sent, until the
//! holder was seen in the lock, it was granted to nobody who could have been told.

use super::by_lock::LockHistory;
use super::sessions::UNDER_WAY;
use super::verdict::{NO_GRANT_TO_THE_ABSENT, Verdict};
use crate::history::Sample;

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let holds = |sample: &Sample, holder: &str| sample.holders.iter().any(|it| it.is_live() && it.holder == holder);
    for (before, after) in lock.looks() {
        // Whoever has the lock by another session has not got it by this one.
        let absent = before.waiters.iter().filter(|it| !it.by.is_attended() && !holds(before, &it.holder));
        for holder in absent.map(|it| it.holder.as_str()).filter(|holder| holds(after, holder)) {
            let Some(step) = lock.last_of(holder).filter(|_| is_absent(lock, holder, (before, after))) else {
                continue;
            };
            let (server, time) = (&after.server, after.answered.since(before.asked));
            let what = format!("{holder} got it from server {server}, {time:?} after nobody attended to its session");
            verdict.violations.push(lock.violation(NO_GRANT_TO_THE_ABSENT, after.asked, what, &[step]));
        }
    }
}

/// Whether nothing can have come from it between two looks.
fn is_absent(lock: &LockHistory, holder: &str, (before, after): (&Sample, &Sample)) -> bool {
    let (since, until) = (before.asked - UNDER_WAY, after.answered);
    let mut steps = lock.steps.iter().filter(|step| step.who() == holder && step.asks_for().is_some());
    let is_silent = |name: &str| {
        lock.sessions.get(name).is_some_and(|session| !session.may_come_between(since, before.asked, until))
    };
    steps.all(|step| step.session().is_some_and(is_silent))
        && !lock.troubles.clients.touches(since, until)
        && !lock.troubles.may_end_sessions(since, until)
}

#[cfg(test)]
mod tests {
    use super::NO_GRANT_TO_THE_ABSENT;
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
        assert_eq!(granted(false, &[]).broken(), [NO_GRANT_TO_THE_ABSENT]);
        assert_eq!(granted(false, &[(600, 700), (921, 930)]).broken(), [NO_GRANT_TO_THE_ABSENT]);
        assert_eq!(granted(false, &[]).polled_in_vain(300).broken(), [NO_GRANT_TO_THE_ABSENT]);
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(granted(false, &[]).troubled((500, 510), Reach::Clients).broken(), []);
        assert_eq!(granted(false, &[]).troubled((500, 510), Reach::Answers).broken(), [NO_GRANT_TO_THE_ABSENT]);
        assert_eq!(granted(false, &[]).troubled((500, 510), restart()).broken(), []);
    }
}
