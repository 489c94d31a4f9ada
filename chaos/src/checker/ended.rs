//! Tickets that wait although their session has ended.

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
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let all = lock.each(|steps| ended(lock, steps));
    lock.tell_once(NOTHING_OF_AN_ENDED_SESSION, verdict, |seen| {
        let (it, asked) = (all.get(seen.holder)?, seen.sample.asked);
        let is_wrong = seen.waits.is_some_and(WaitsBy::is_ticket);
        let late = lock.quiet(it.gone.by, asked.max(it.gone.by));
        let what = || format!("{} ms after session {} had ended", asked.since(it.gone.by).as_millis(), it.session);
        let is_elsewhere = lock.troubles.new_starts.touches(it.step.call.at, asked)
            || lock.troubles.clock_steps.touches(it.gone.silent_since, asked);
        (is_wrong && late > LATE && !is_elsewhere).then(|| (what(), it.step))
    });
}

/// A holder that asked in one session only.
fn ended<'a>(lock: &LockHistory<'a>, steps: &[&'a Operation]) -> Option<Ended<'a>> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some()).peekable();
    let step = **asked.peek()?;
    let name = step.session()?;
    // What had no answer may still be under way, and find a session of that name again.
    if !asked.all(|other| other.session() == Some(name) && other.has_arrived()) {
        return None;
    }
    let gone = lock.sessions.get(name)?.gone(lock.troubles)?;
    Some(Ended { step, session: name, gone })
}

#[cfg(test)]
mod tests {
    use super::NOTHING_OF_AN_ENDED_SESSION;
    use crate::checker::written::{Written, by_ticket, failover};
    use crate::history::Side::Plain;

    /// In a session that ends by itself at 1,020 at the latest.
    fn waits(at: u64) -> Written {
        let history = Written::default().queued("a", 6_000, (0, 1)).polled((0, 20), 1, 0, &[]);
        history.seen_by_ticket(at, &[("x", Plain)], &[("a", 1, false)])
    }

    #[test]
    fn a_wait_goes_with_its_session() {
        assert_eq!(waits(2_000).broken(), []);
        assert_eq!(waits(2_100).broken(), [NOTHING_OF_AN_ENDED_SESSION]);
        assert_eq!(waits(1_100).session_ended((30, 40)).broken(), [NOTHING_OF_AN_ENDED_SESSION]);
        assert_eq!(waits(2_100).called("a", by_ticket(6_000), 2).broken(), [], "which may be under way");
    }

    #[test]
    fn a_grant_stays() {
        let granted = Written::default().queued("a", 6_000, (0, 1)).polled((0, 20), 1, 0, &[]);
        assert_eq!(granted.seen_with(2_100, 3_000, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(waits(2_100).troubled((500, 510), failover()).broken(), []);
    }
}
