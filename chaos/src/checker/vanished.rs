//! Waiters that have left the queue without a reply.

use super::by_lock::LockHistory;
use super::verdict::{Verdict, WAITERS_ARE_ANSWERED};
use super::waits::{Wait, waits};
use crate::history::{Moment, Operation, WaitsBy};
use std::time::Duration;

/// How long an answer may take on a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// How long a server may take to notice that a client is gone.
const HEARD: Duration = Duration::from_millis(300);

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let askers = lock.each(asks_once);
    for wait in waits(lock) {
        let Some(&step) = askers.get(wait.waiting.holder.as_str()) else { continue };
        let Some(missed) = missed(lock, &wait) else { continue };
        if has_no_connection(&wait.waiting.by) {
            continue;
        }
        // If a client gave up by itself, its record says when. Others have waited until their process ended.
        let answered = step.answer.as_ref().map_or(lock.troubles.clients_end, |(at, _)| *at);
        let looked = lock.samples.last().map_or(missed, |sample| sample.asked);
        let silent = lock.quiet(missed, answered.min(looked));
        let may_be_lost = || lock.troubles.answers.touches(wait.last.asked - HEARD, missed + LATE * 2);
        if silent > LATE && !may_be_lost() {
            let (holder, by, server) = (&wait.waiting.holder, &wait.waiting.by, &wait.last.server);
            let what = format!("{holder} ({by:?} at server {server}) left the queue, and had no answer for {silent:?}");
            verdict.violations.push(lock.violation(WAITERS_ARE_ANSWERED, missed, what, &[step]));
        }
    }
}

/// An unattended session gets no events.
fn has_no_connection(by: &WaitsBy) -> bool {
    matches!(by, WaitsBy::Ticket { connection: None, .. })
}

/// When the waiter was first seen missing. A waiter that has waited for less than before is still there: the clock of its
/// server was set back.
fn missed(lock: &LockHistory, wait: &Wait) -> Option<Moment> {
    let later = lock.samples.partition_point(|sample| sample.asked <= wait.last.asked);
    let next = lock.samples[later..].iter().find(|sample| sample.server == wait.last.server)?;
    let is_there = next.waiters.iter().any(|waiting| waiting.holder == wait.waiting.holder.as_str());
    (!is_there).then_some(next.answered)
}

/// The only wait of a holder: if it has several, a sample does not say which.
fn asks_once<'a>(steps: &[&'a Operation]) -> Option<&'a Operation> {
    let mut waits = steps.iter().filter(|step| step.call.request.waits());
    waits.next().filter(|_| waits.next().is_none()).copied()
}

#[cfg(test)]
mod tests {
    use super::WAITERS_ARE_ANSWERED;
    use crate::checker::written::{Written, clock, failover, give, refused, unknown, wait};
    use crate::history::Side::Plain;
    use crate::history::{Answer, Reach};

    /// `w` waits from 0 on, is seen until 200, and is missing from 220 on. Other clients are at work `until` this time.
    fn gone(until: u64) -> Written {
        let seen = others_until(until).seen(200, &[("x", Plain)], &[("w", Plain, 0)]);
        (220..until).step_by(20).fold(seen, |history, at| history.seen(at, &[("x", Plain)], &[]))
    }

    fn others_until(time: u64) -> Written {
        Written::default().did("y", give(Plain), (time, time + 1), Answer::Released(None))
    }

    #[test]
    fn an_answer_in_time_is_accepted() {
        let in_time = gone(3_000).did("w", wait(5_000, 4_000), (0, 900), refused(5));
        assert_eq!(in_time.broken(), []);
        let gave_up = gone(3_000).did("w", wait(5_000, 4_000), (0, 500), unknown());
        assert_eq!(gave_up.broken(), []);
    }

    #[test]
    fn a_session_without_a_connection_gets_no_event() {
        let gone = |attended: bool| {
            let ticket = others_until(3_000).seen_by_ticket(200, &[("x", Plain)], &[("w", 0, attended)]);
            let ticket = if attended { ticket } else { ticket.on_no_connection() };
            let unseen = (220..3_000).step_by(20).fold(ticket, |history, at| history.seen(at, &[("x", Plain)], &[]));
            unseen.called("w", wait(5_000, 4_000), 0).broken()
        };
        assert_eq!(gone(false), []);
        assert_eq!(gone(true), [WAITERS_ARE_ANSWERED]);
    }

    #[test]
    fn a_waiter_without_an_answer_is_forgotten() {
        assert_eq!(gone(3_000).called("w", wait(5_000, 4_000), 0).broken(), [WAITERS_ARE_ANSWERED]);
        let late = gone(3_000).did("w", wait(5_000, 4_000), (0, 2_000), unknown());
        assert_eq!(late.broken(), [WAITERS_ARE_ANSWERED]);
        let ended = (1_000..3_000).step_by(20).fold(gone(1_000), |history, at| history.seen(at, &[("x", Plain)], &[]));
        assert_eq!(ended.called("w", wait(5_000, 4_000), 0).broken(), [], "its process has ended");
        // The last sample is from less than a second after the waiter went missing.
        assert_eq!(gone(1_000).called("w", wait(5_000, 4_000), 0).broken(), []);
    }

    #[test]
    fn a_waiter_still_waits_if_the_clock_was_set_back() {
        let seen = |history: Written, since, at| history.seen(at, &[("x", Plain)], &[("w", Plain, since)]);
        let before = seen(Written::default(), 0, 2_000);
        let after = (2_020..6_000).step_by(20).fold(before, |history, at| seen(history, at - 5, at));
        assert_eq!(
            after.did("w", wait(5_000, 0), (0, 6_000), refused(5)).troubled((2_005, 2_010), clock(-2_000)).broken(),
            []
        );
    }

    #[test]
    fn an_answer_may_not_arrive() {
        let lost = |reach| gone(3_000).called("w", wait(5_000, 4_000), 0).troubled((210, 2_500), reach).broken();
        assert_eq!(lost(Reach::Clients), []);
        assert_eq!(lost(Reach::Answers), []);
        assert_eq!(lost(failover()), []);
        assert_eq!(lost(Reach::Nobody), [WAITERS_ARE_ANSWERED]);
    }

    #[test]
    fn a_gone_waiter_is_queued_until_the_server_notices() {
        let killed = |at| {
            let seen = others_until(5_000).seen(2_000, &[("x", Plain)], &[("w", Plain, 0)]);
            let gone = (2_020..5_000).step_by(20).fold(seen, |history, at| history.seen(at, &[("x", Plain)], &[]));
            gone.called("w", wait(9_000, 8_000), 0).troubled((at, at + 5), Reach::Clients).broken()
        };
        assert_eq!(killed(1_990), []);
        assert_eq!(killed(1_600), [WAITERS_ARE_ANSWERED]);
    }
}
