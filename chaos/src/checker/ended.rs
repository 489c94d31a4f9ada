//! What stays of sessions that have ended: waits, and grants that were in no reply.

use super::by_lock::{LockHistory, Step};
use super::sessions::{Gone, Sessions};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Request, Sample};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// What a server may take to end a session, beside the time in which it could do nothing.
const LATE: Duration = Duration::from_secs(1);

/// A holder whose session is gone.
struct Ended<'l, 'a> {
    step: &'l Step<'a>,
    session: &'l str,
    gone: Gone,
    /// What it may have been granted was in no reply, and nobody has renewed it.
    holds_nothing: bool,
}

pub fn check(lock: &LockHistory, sessions: &Sessions, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let ended: HashMap<&str, Ended> =
        lock.holders.iter().filter_map(|steps| ended(lock, steps, sessions, troubles)).collect();
    if ended.is_empty() {
        return;
    }
    let mut told = HashSet::new();
    for &sample in &lock.samples {
        for (holder, does, is_wait) in present(sample) {
            let Some(it) = ended.get(holder).filter(|it| is_wait || it.holds_nothing) else { continue };
            let late = troubles.quiet(lock.name, it.gone.by, sample.asked.max(it.gone.by));
            if late > LATE && !is_elsewhere(lock, it, sample, troubles) && told.insert(holder) {
                violations.push(Violation {
                    promise: Promise::NothingOfAnEndedSession,
                    lock: lock.name.to_owned(),
                    at: sample.asked,
                    what: format!(
                        "{holder} {does} at server {}, {} ms after session {} had ended",
                        sample.server,
                        sample.asked.since(it.gone.by).as_millis(),
                        it.session,
                    ),
                    evidence: vec![it.step.named()],
                });
            }
        }
    }
}

fn present(sample: &Sample) -> impl Iterator<Item = (&str, &'static str, bool)> {
    let holders = sample
        .holders
        .iter()
        .filter(|holding| holding.is_live())
        .map(|holding| (holding.holder.as_str(), "holds the lock", false));
    let by_ticket = sample.waiters.iter().filter(|waiting| waiting.by.is_ticket());
    holders.chain(by_ticket.map(|waiting| (waiting.holder.as_str(), "waits", true)))
}

/// Holds are replicated and sessions are not; and what was moved away may come back.
fn is_elsewhere(lock: &LockHistory, it: &Ended, sample: &Sample, troubles: &Troubles) -> bool {
    let began = it.step.call().at;
    troubles.new_starts.touches(began, sample.asked)
        || troubles.removals(lock.name, began, sample.asked).next().is_some()
        || troubles.clock_steps.touches(it.gone.silent_since, sample.asked)
}

/// A holder that asked in one session only.
fn ended<'l, 'a>(
    lock: &'l LockHistory<'a>,
    places: &[usize],
    sessions: &'l Sessions<'a>,
    troubles: &Troubles,
) -> Option<(&'a str, Ended<'l, 'a>)> {
    let steps: Vec<&Step> = places.iter().map(|place| &lock.steps[*place]).collect();
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some()).copied();
    let step = asked.next()?;
    let name = step.session()?;
    let mut others = asked.clone();
    if others.any(|other| other.session() != Some(name)) {
        return None;
    }
    let session = sessions.get(name)?;
    let gone = session.gone(troubles)?;
    let mut asked = std::iter::once(step).chain(asked);
    // What had no answer may still be under way, and find a session of that name again.
    if !asked.clone().all(Step::has_arrived) {
        return None;
    }
    // What was granted at once has nothing to do with the session.
    let was_queued = asked.all(|step| step.operation.queued.is_some() || step.did_nothing());
    let was_renewed = steps.iter().any(|step| matches!(step.call().request, Request::Renew { .. }));
    let holds_nothing = was_queued && !was_renewed && !session.may_be_told(step.who());
    Some((step.who(), Ended { step, session: session.name, gone, holds_nothing }))
}

#[cfg(test)]
mod tests {
    use super::Promise::NothingOfAnEndedSession;
    use crate::checker::written::{Written, by_ticket, failover, granted, removed, renew};
    use crate::history::Answer;
    use crate::history::Side::Plain;

    /// A ticket that waits in a session that ends by itself at 1,020 at the latest.
    fn queued_and_left() -> Written {
        Written::default().queued("a", 6_000, (0, 1)).polled((0, 10), 1, 0, &[]).polled((11, 20), 1, 0, &[])
    }

    fn held(history: Written, at: u64) -> Vec<super::Promise> {
        history.seen_with(at, 3_000, &[("a", Plain)], &[]).broken()
    }

    #[test]
    fn what_was_in_no_reply_goes_with_its_session() {
        assert_eq!(held(queued_and_left(), 2_000), []);
        assert_eq!(held(queued_and_left(), 2_100), [NothingOfAnEndedSession]);
        assert_eq!(held(queued_and_left().session_ended((30, 40)), 1_100), [NothingOfAnEndedSession]);
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
        assert_eq!(waits(2_100).broken(), [NothingOfAnEndedSession]);
        assert_eq!(waits(2_100).called("a", by_ticket(6_000), 2).broken(), [], "which may be under way");
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(held(queued_and_left().troubled((500, 510), failover()), 2_100), []);
        assert_eq!(held(queued_and_left().troubled((500, 510), removed(false)), 2_100), []);
    }
}
