//! Locks with a holder that does not know of its hold: it was refused, its wait was ended, or it has released the lock.

use super::by_lock::{LockHistory, Seen};
use super::verdict::{NO_GRANT_WITHOUT_WAITER, RELEASES_ARE_FINAL, Verdict};
use super::waits::{Wait, waits};
use crate::history::{Answer, Moment, Operation, Reach, Request, Side, Trouble};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A wait that was ended may have been granted just before, and the report takes a moment.
const LEEWAY: Duration = Duration::from_millis(300);

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let (refused, ended) = (lock.each(refused), ended_waits(lock));
    lock.report_once(NO_GRANT_WITHOUT_WAITER, verdict, |seen| {
        let holds = |holder| Some(holder).filter(|_| seen.waits.is_none());
        let ghost = refused.get(holds(seen.holder)?).filter(|step| seen.sample.asked > step.done());
        let ghost = ghost.map(|step| ("although it was refused".to_owned(), *step));
        let revenant = || ended.get(seen.holder).filter(|it| it.is_granted_later(seen));
        ghost.or_else(|| revenant().map(|it| ("although its wait had been ended".to_owned(), it.step)))
    });
    let released = lock.each(released);
    lock.report_once(RELEASES_ARE_FINAL, verdict, |seen| {
        let asked = seen.sample.asked;
        let (began, step) = *released.get(seen.holder).filter(|(_, step)| asked > step.done())?;
        // Another master may still have a lock that this one released, and a lock that was moved away may come back. A
        // server that restarted with all its keys explains neither.
        let is_elsewhere = lock.troubles.failovers.touches(began, asked) || lock.is_removed(began, asked);
        (seen.waits.is_none() && !is_elsewhere).then(|| ("although it was released".to_owned(), step))
    });
}

/// For a holder that was granted the lock by its only request, and released it: when it asked, and the step that
/// released. Not for guards: they may ask again by themselves.
fn released<'a>(steps: &[&'a Operation]) -> Option<(Moment, &'a Operation)> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    let asked = asked.next().filter(|step| !step.is_guard() && asked.next().is_none())?;
    let (granted, _) = asked.granted()?;
    let is_released = |step: &&&Operation| matches!(step.known_answer(), Some(Answer::Released(_) | Answer::Stored(_)));
    let step = steps.iter().find(is_released).filter(|step| step.call.at >= granted)?;
    Some((asked.call.at, *step))
}

/// The last request of a holder that was never granted anything. Not for guards: only their last answer is known, and they
/// release later, by themselves, what an unanswered request acquired.
fn refused<'a>(steps: &[&'a Operation]) -> Option<&'a Operation> {
    let asked = steps.iter().filter(|step| step.asks_for().is_some());
    let is_refused = asked.clone().all(|step| step.did_nothing() && !step.is_guard());
    asked.max_by_key(|step| step.done()).filter(|_| is_refused).copied()
}

/// The only attempt of a holder, and the fault that ended its wait.
struct Ended<'a> {
    step: &'a Operation,
    trouble: &'a Trouble,
    lease_ms: u64,
}

impl Ended<'_> {
    fn is_granted_later(&self, seen: &Seen) -> bool {
        let Seen { sample, holder, .. } = *seen;
        // Each reader and each permit has a lease of its own, and the lock's is the longest.
        let shared = |side| matches!(side, Side::Read | Side::Permit);
        let own = sample.holders.iter().find(|it| it.holder == holder && shared(it.side));
        let left = own.map_or(Some(sample.ttl_ms), |it| it.ttl_ms).and_then(|left| u64::try_from(left).ok());
        let granted = |left| sample.asked + Duration::from_millis(left) - Duration::from_millis(self.lease_ms);
        left.is_some_and(|left| granted(left) > self.trouble.ended + LEEWAY)
    }
}

fn ended_waits<'a>(lock: &LockHistory<'a>) -> HashMap<&'a str, Ended<'a>> {
    let mut ended = HashMap::new();
    let troubles = lock.troubles;
    let servers: HashSet<&str> = lock.samples.iter().map(|sample| sample.server.as_str()).collect();
    // Client numbers are per server, and the trouble does not name the server.
    if servers.len() > 1 || !troubles.clock_steps.is_empty() || !troubles.failovers.is_empty() {
        return ended;
    }
    let alone = lock.each(alone);
    for wait in waits(lock) {
        let Some((step, lease_ms)) = alone.get(wait.waiting.holder.as_str()) else { continue };
        let client = wait.waiting.by.client();
        let of_it =
            |trouble: &&Trouble| matches!(trouble.reach, Reach::Wait { client_id } if Some(client_id) == client);
        for &trouble in troubles.of_waits.iter().filter(|it| of_it(it)) {
            if waited_then(&wait, step, trouble) {
                ended.insert(step.holder(), Ended { step, trouble, lease_ms: *lease_ms });
            }
        }
    }
    ended
}

fn waited_then(wait: &Wait, step: &Operation, trouble: &Trouble) -> bool {
    let answered = step.answer.as_ref().map_or(Moment(u64::MAX), |(at, _)| *at);
    step.call.at < trouble.began && trouble.began < answered && wait.first.asked < trouble.ended
}

/// The attempt of a holder with only one, by command and not granted; and its lease. The holder may still have tried to
/// release.
fn alone<'a>(steps: &[&'a Operation]) -> Option<(&'a Operation, u64)> {
    let releases = |step: &Operation| matches!(step.call.request, Request::Release { .. } | Request::Answer { .. });
    let mut others = steps.iter().filter(|step| !releases(step));
    let step = *others.next().filter(|_| others.next().is_none())?;
    let Request::Acquire { lease_ms, .. } = step.call.request else { return None };
    (step.granted().is_none() && !step.is_by_script()).then_some((step, lease_ms))
}

#[cfg(test)]
mod tests {
    use super::{NO_GRANT_WITHOUT_WAITER, RELEASES_ARE_FINAL};
    use crate::checker::written::{Written, failover, give, granted, permit, refused, removed, restart};
    use crate::checker::written::{take, unknown, wait, wait_for};
    use crate::history::Side::{Permit, Plain};
    use crate::history::{Answer, Reach};

    fn asked(answer: Answer) -> Written {
        Written::default().did("a", wait(1_000, 50), (0, 60), answer)
    }

    #[test]
    fn a_granted_holder_may_be_seen() {
        assert_eq!(asked(granted()).seen(70, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(asked(unknown()).seen(70, &[("a", Plain)], &[]).broken(), []);
        let again = asked(refused(5)).did("a", wait(1_000, 50), (61, 65), granted());
        assert_eq!(again.seen(70, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn a_refused_holder_may_not_be_seen() {
        for no in [refused(5), Answer::Failed("no".to_owned())] {
            assert_eq!(asked(no).seen(70, &[("a", Plain)], &[]).broken(), [NO_GRANT_WITHOUT_WAITER]);
        }
    }

    #[test]
    fn what_is_seen_before_the_answer_proves_nothing() {
        assert_eq!(asked(refused(5)).seen(30, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn a_holder_that_released_may_not_be_seen() {
        let released = || {
            let held = Written::default().did("a", take(1_000), (0, 1), granted());
            held.did("a", give(Plain), (10, 12), Answer::Released(Some(1)))
        };
        let seen = |history: Written| history.seen(20, &[("a", Plain)], &[]).broken();
        assert_eq!(seen(released()), [RELEASES_ARE_FINAL]);
        assert_eq!(seen(released().troubled((15, 16), restart())), [RELEASES_ARE_FINAL]);
        assert_eq!(seen(released().troubled((15, 16), failover())), []);
        assert_eq!(seen(released().troubled((15, 16), removed(false))), []);
        assert_eq!(seen(released().did("a", take(1_000), (13, 14), granted())), []);
        assert_eq!(released().seen(11, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn an_ended_wait_is_not_granted_later() {
        let ended = || {
            let seen = asked(unknown()).seen(10, &[("x", Plain)], &[("a", Plain, 0)]);
            seen.troubled((20, 30), Reach::Wait { client_id: 7 })
        };
        // With 600 ms left of a second, it was granted at 400.
        assert_eq!(ended().seen_with(800, 600, &[("a", Plain)], &[]).broken(), [NO_GRANT_WITHOUT_WAITER]);
        assert_eq!(ended().seen_with(800, 210, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(asked(unknown()).seen_with(800, 600, &[("a", Plain)], &[]).broken(), []);
    }

    #[test]
    fn the_lease_of_another_permit_is_not_its_own() {
        let held = |left_ms| {
            let waited = Written::default().did("a", wait_for(permit(1_000, 2), 50), (0, 60), unknown());
            let ended = waited.seen(10, &[], &[("a", Permit, 0)]).troubled((20, 30), Reach::Wait { client_id: 7 });
            ended.seen_with(800, left_ms, &[("a", Permit)], &[])
        };
        assert_eq!(held(600).broken(), [NO_GRANT_WITHOUT_WAITER]);
        assert_eq!(held(210).with_lock_lease(3_000).broken(), []);
    }
}
