//! Dropped guards and abandoned waits: `rlock-client` must release and cancel them by itself.

use super::by_lock::LockHistory;
use super::verdict::{DROPPED_GUARDS_ARE_RELEASED, Verdict};
use crate::history::{Answer, Moment, Operation};
use std::time::Duration;

/// Longer than it takes to find out that an answer is lost, to connect again, and to cancel the wait.
const LATE_IN_LEAVING: Duration = Duration::from_secs(2);

/// For a hold, also longer than the first lease of a grant, 3 s: it ends a grant to a wait that the client has forgotten.
const LATE: Duration = Duration::from_millis(3_500);

/// Checks only samples from before the clients end: they release nothing after that.
pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let over = lock.each(over);
    let troubles = lock.troubles;
    lock.report_once(DROPPED_GUARDS_ARE_RELEASED, verdict, |seen| {
        let asked = seen.sample.asked;
        let (since, step) = *over.get(seen.holder).filter(|_| asked <= troubles.clients_end)?;
        // Another master may still have a lock that this one released, and a lock that was moved away may come back.
        if troubles.failovers.touches(since - LATE, asked) || lock.is_removed(since - LATE, asked) {
            return None;
        }
        let disturbances = troubles.clients.touching(since, asked);
        let since = disturbances.map(|(_, ended, _)| *ended).max().unwrap_or(since).max(since);
        let late = lock.quiet(since, asked.max(since));
        let allowed = if seen.waits.is_some() { LATE_IN_LEAVING } else { LATE };
        (late > allowed).then(|| (format!("{} ms after its end", late.as_millis()), step))
    });
}

/// When this holder's last step ended, if it used a guard. That is not known if its process was killed.
fn over<'a>(steps: &[&'a Operation]) -> Option<(Moment, &'a Operation)> {
    let mut last: Option<(Moment, &Operation)> = None;
    for step in steps {
        let (answered, answer) = step.answer.as_ref()?;
        let end = if step.is_guard() && matches!(answer, Answer::Granted { .. }) { step.ended? } else { *answered };
        if last.is_none_or(|(since, _)| end >= since) {
            last = Some((end, step));
        }
    }
    last.filter(|_| steps.iter().any(|step| step.is_guard()))
}

#[cfg(test)]
mod tests {
    use super::DROPPED_GUARDS_ARE_RELEASED;
    use crate::checker::written::{Written, failover, granted, guard, refused, take, unknown};
    use crate::history::Reach;
    use crate::history::Side::Plain;

    fn others() -> Written {
        Written::default().did("o", take(10), (9_000, 9_001), refused(5))
    }

    /// Another client is at work for longer.
    fn dropped_at(at: u64) -> Written {
        others().did("g", guard(30_000), (0, 10), granted()).vouched("g", 11, 20).ended("g", at)
    }

    #[test]
    fn it_may_take_a_while() {
        assert_eq!(dropped_at(100).seen(2_500, &[("g", Plain)], &[]).broken(), []);
        assert_eq!(dropped_at(100).seen(4_000, &[("h", Plain)], &[]).broken(), []);
        assert_eq!(dropped_at(2_000).seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }

    #[test]
    fn it_may_not_be_kept() {
        assert_eq!(dropped_at(100).seen(4_000, &[("g", Plain)], &[]).broken(), [DROPPED_GUARDS_ARE_RELEASED]);
        let given_up = || others().did("g", guard(30_000), (0, 100), unknown());
        let waits = |at| given_up().seen(at, &[("h", Plain)], &[("g", Plain, 0)]).broken();
        assert_eq!((waits(2_000), waits(2_200)), (vec![], vec![DROPPED_GUARDS_ARE_RELEASED]));
        assert_eq!(given_up().seen(2_200, &[("g", Plain)], &[]).broken(), [], "its first lease");
    }

    #[test]
    fn a_client_that_has_ended_releases_nothing() {
        let alone = Written::default().did("g", guard(30_000), (0, 10), granted()).vouched("g", 11, 20).ended("g", 100);
        assert_eq!(alone.seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }

    #[test]
    fn a_client_that_cannot_release_is_excused() {
        let held = || dropped_at(100).seen(4_000, &[("g", Plain)], &[]);
        assert_eq!(held().troubled((200, 2_500), failover()).broken(), []);
        assert_eq!(held().troubled((200, 2_500), Reach::Clients).broken(), []);
        assert_eq!(held().troubled((200, 300), Reach::Clients).broken(), [DROPPED_GUARDS_ARE_RELEASED]);
        // Its process only has to reconnect.
        assert_eq!(held().troubled((200, 2_500), Reach::Answers).broken(), [DROPPED_GUARDS_ARE_RELEASED]);
        // Killed before its end was written.
        let killed = others().did("g", guard(30_000), (0, 10), granted());
        assert_eq!(killed.seen(4_000, &[("g", Plain)], &[]).broken(), []);
    }
}
