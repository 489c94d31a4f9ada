//! What stays of sessions that have ended: waits, and grants that were in no reply.

use super::by_lock::LockHistory;
use super::sessions::Gone;
use super::verdict::{NOTHING_OF_AN_ENDED_SESSION, Verdict};
use crate::history::{Operation, WaitsBy};
use std::time::Duration;

/// What a server may take to end a session, beside the time in which it could do nothing.
const LATE: Duration = Duration::from_secs(1);

/// A holder whose session is gone.
struct Ended<'a> {
    step: &'a Operation,
    session: &'a str,
    gone: Gone,
    /// What it may have been granted was in no reply, and nobody has renewed it.
    holds_nothing: bool,
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let all = lock.each(|steps| ended(lock, steps));
    lock.tell_once(NOTHING_OF_AN_ENDED_SESSION, verdict, |seen| {
        let (it, asked) = (all.get(seen.holder)?, seen.sample.asked);
        let is_wrong = seen.waits.map_or(it.holds_nothing, WaitsBy::is_ticket);
        let late = lock.quiet(it.gone.by, asked.max(it.gone.by));
        let what = || format!("{} ms after session {} had ended", asked.since(it.gone.by).as_millis(), it.session);
        // Holds are replicated and sessions are not; and what was moved away may come back.
        let began = it.step.call.at;
        let is_elsewhere = lock.troubles.new_starts.touches(began, asked)
            || lock.is_removed(began, asked)
            || lock.troubles.clock_steps.touches(it.gone.silent_since, asked);
        (is_wrong && late > LATE && !is_elsewhere).then(|| (what(), it.step))
    });
}

/// A holder that asked in one session only.
fn ended<'a>(lock: &LockHistory<'a>, steps: &[&'a Operation]) -> Option<Ended<'a>> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    let step = *asked.clone().next()?;
    let name = step.session()?;
    // What had no answer may still be under way, and find a session of that name again.
    if !asked.clone().all(|other| other.session() == Some(name) && other.has_arrived()) {
        return None;
    }
    let session = lock.sessions.get(name)?;
    let gone = session.gone(lock.troubles)?;
    // What was granted at once has nothing to do with the session.
    let was_queued = asked.all(|step| step.queued.is_some() || step.did_nothing());
    let was_renewed = steps.iter().any(|step| step.is_renewal());
    let holds_nothing = was_queued && !was_renewed && !session.may_be_told(step.who());
    Some(Ended { step, session: name, gone, holds_nothing })
}

#[cfg(test)]
mod tests {
    use super::NOTHING_OF_AN_ENDED_SESSION;
    use crate::checker::written::{Written, by_ticket, failover, granted, removed, renew};
    use crate::history::Answer;
    use crate::history::Side::Plain;

    /// A ticket that waits in a session that ends by itself at 1,020 at the latest.
    fn queued_and_left() -> Written {
        Written::default().queued("a", 6_000, (0, 1)).polled((0, 10), 1, 0, &[]).polled((11, 20), 1, 0, &[])
    }

    fn held(history: Written, at: u64) -> Vec<crate::checker::Promise> {
        history.seen_with(at, 3_000, &[("a", Plain)], &[]).broken()
    }

    #[test]
    fn what_was_in_no_reply_goes_with_its_session() {
        assert_eq!(held(queued_and_left(), 2_000), []);
        assert_eq!(held(queued_and_left(), 2_100), [NOTHING_OF_AN_ENDED_SESSION]);
        assert_eq!(held(queued_and_left().session_ended((30, 40)), 1_100), [NOTHING_OF_AN_ENDED_SESSION]);
    }

    #[test]
    fn what_somebody_may_know_of_stays() {
        assert_eq!(held(queued_and_left().polled((12, 21), 1, 0, &[(1, "a", granted())]), 2_100), []);
        assert_eq!(held(queued_and_left().polled_in_vain(12), 2_200), []);
        let renewed = queued_and_left().did("a", renew(6_000), (12, 13), Answer::Renewed(true));
        assert_eq!(held(renewed, 2_100), []);
        let at_once = Written::default().did("a", by_ticket(6_000), (0, 1), granted()).polled((0, 10), 1, 0, &[]);
        assert_eq!(held(at_once, 2_100), []);
    }

    #[test]
    fn a_wait_goes_with_its_session() {
        let waits = |at| {
            let history = Written::default().queued("a", 6_000, (0, 1)).polled((0, 20), 1, 0, &[]);
            history.seen_by_ticket(at, &[("x", Plain)], &[("a", 1, false)])
        };
        assert_eq!(waits(2_000).broken(), []);
        assert_eq!(waits(2_100).broken(), [NOTHING_OF_AN_ENDED_SESSION]);
        assert_eq!(waits(2_100).called("a", by_ticket(6_000), 2).broken(), [], "which may be under way");
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(held(queued_and_left().troubled((500, 510), failover()), 2_100), []);
        assert_eq!(held(queued_and_left().troubled((500, 510), removed(false)), 2_100), []);
    }
}
