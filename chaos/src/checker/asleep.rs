//! Waiters of a lock that is free.

use super::by_lock::LockHistory;
use super::runs::runs;
use super::spans::Spans;
use super::verdict::{FREE_LOCKS_ARE_GRANTED, Verdict};
use super::waits::is_same;
use crate::history::{Moment, Sample, Side, Waiting};
use std::time::Duration;

/// Up to this long after it was sent, a script without a known reply may acquire a lock and lose it again.
const UNKNOWN_LASTS: Duration = Duration::from_secs(5);

/// How long a waiter may stay in the queue of a free lock: observers look at a lock only now and then, and a busy machine
/// is sometimes late.
const ASLEEP: Duration = Duration::from_millis(500);

/// Reports a waiter that was first for too long while each sample showed the lock free. Excused time does not count.
pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let scripts = script_grants(lock);
    let looks = lock.samples.iter().map(|&sample| (&sample.server, sample));
    let stays =
        |earlier: &Sample, later: &Sample| is_free(earlier) && is_free(later) && goes_on(earlier, later, &scripts);
    for (first, last) in runs(looks, stays).into_iter().filter(|(first, _)| is_free(first)) {
        let (from, until) = (first.answered, last.asked);
        let asleep = if from < until { lock.quiet(from, until) } else { Duration::ZERO };
        verdict.figures.add("longest wait at a free lock, ms", asleep.as_millis().try_into().unwrap_or(u64::MAX));
        let Some(waiting) = first_of(last).filter(|_| asleep > ASLEEP) else { continue };
        let what = format!(
            "asleep at a free lock: {waiting:?} stood first before it at server {} for {:?}, {asleep:?} of them without \
             an excuse",
            last.server,
            until.since(from),
        );
        let evidence: Vec<_> = lock.last_of(&waiting.holder).into_iter().collect();
        verdict.violations.push(lock.violation(FREE_LOCKS_ARE_GRANTED, last.asked, what, &evidence));
    }
}

/// Whether the lock stayed free between two samples: the same waiter is first, and no script can have held the lock.
fn goes_on(earlier: &Sample, later: &Sample, scripts: &Spans<()>) -> bool {
    let (Some(before), Some(after)) = (first_of(earlier), first_of(later)) else { return false };
    is_same((earlier, before), (later, after)) && !scripts.touches(earlier.asked, later.answered)
}

/// The first waiter that can be served. A waiter with an unattended session is skipped.
fn first_of(sample: &Sample) -> Option<&Waiting> {
    sample.waiters.iter().find(|waiting| waiting.by.is_attended())
}

/// Whether the first waiter could be granted the lock.
fn is_free(sample: &Sample) -> bool {
    let Some(first) = first_of(sample) else { return false };
    let is_unheld = sample.holders.is_empty() || sample.ttl_ms == -2;
    let readers = sample.holders.iter().all(|holding| holding.side == Side::Read);
    let taken = sample.holders.iter().filter(|holding| holding.is_live()).count();
    let permits = sample.holders.iter().all(|holding| holding.side == Side::Permit);
    // The state of one lock does not say whether a waiter for several can be granted, nor whether the lock is reserved
    // for it.
    let is_shared = (readers && first.side == Side::Read) || (permits && taken < first.limit as usize);
    !first.is_for_several() && (is_unheld || is_shared)
}

fn script_grants(lock: &LockHistory) -> Spans<()> {
    let may_be_granted = lock.steps.iter().filter(|step| step.is_by_script() && !step.did_nothing());
    let span = |at: Moment, done: Moment| (at, done.min(at + UNKNOWN_LASTS), ());
    Spans::from(may_be_granted.map(|step| span(step.call.at, step.done())))
}

#[cfg(test)]
mod tests {
    use super::FREE_LOCKS_ARE_GRANTED;
    use crate::checker::written::{Written, clock, granted, script};
    use crate::history::Reach;
    use crate::history::Side::{Permit, Plain, Read, Write};

    fn free(from: u64, until: u64) -> Written {
        let times = (from..=until).step_by(100);
        times.fold(Written::default(), |history, at| history.seen(at, &[], &[("w", Plain, 0)]))
    }

    #[test]
    fn a_moment_is_no_sleep() {
        assert_eq!(free(100, 500).broken(), []);
        // Two samples, with a holder in between.
        assert_eq!(free(100, 900).seen(450, &[("x", Plain)], &[("w", Plain, 0)]).broken(), []);
        // Or a script, which no sample shows.
        assert_eq!(free(100, 900).did("x", script(5), (420, 440), granted()).broken(), []);
    }

    #[test]
    fn a_reader_before_readers_is() {
        let seen = |at: u64, history: Written, side| history.seen(at, &[("x", side)], &[("w", Read, 0)]);
        let readers = [100, 500, 900].into_iter().fold(Written::default(), |history, at| seen(at, history, Read));
        assert_eq!(readers.broken(), [FREE_LOCKS_ARE_GRANTED]);
        let writer = [100, 500, 900].into_iter().fold(Written::default(), |history, at| seen(at, history, Write));
        assert_eq!(writer.broken(), []);
    }

    #[test]
    fn a_free_permit_is_for_the_first_waiter() {
        let times = [100, 500, 900].into_iter();
        let free = |limit| {
            times.clone().fold(Written::default(), |history, at| {
                history.seen(at, &[("x", Permit), ("y", Permit)], &[("w", Permit, 0)]).by_limit(limit)
            })
        };
        assert_eq!(free(2).broken(), []);
        assert_eq!(free(3).broken(), [FREE_LOCKS_ARE_GRANTED]);
    }

    #[test]
    fn a_lock_may_be_reserved_for_a_waiter_for_several() {
        let seen = |history: Written, at| history.seen(at, &[], &[("w", Plain, 0)]).for_several();
        assert_eq!([100, 500, 900].into_iter().fold(Written::default(), seen).broken(), []);
    }

    #[test]
    fn trouble_excuses_for_as_long_as_it_lasts() {
        let paused = |until| free(100, 2_000).troubled((200, until), Reach::NoWrites { server: "a".to_owned() });
        assert_eq!(paused(1_800).broken(), []);
        assert_eq!(paused(600).broken(), [FREE_LOCKS_ARE_GRANTED]);
        assert_eq!(free(100, 1_000).troubled((500, 500), clock(10)).broken(), []);
    }

    #[test]
    fn others_at_other_times_do_not_sleep() {
        let heads = ["v", "w", "x", "y", "z"].into_iter().zip([100, 300, 500, 700, 900]);
        let history = heads.fold(Written::default(), |history, (head, at)| history.seen(at, &[], &[(head, Plain, 0)]));
        assert_eq!(history.broken(), []);
    }

    #[test]
    fn an_unattended_waiter_is_overtaken() {
        let seen = |is_attended: bool, behind: bool| {
            (100..=1_000).step_by(100).fold(Written::default(), |history, at| {
                let waiters = [("w", 0, is_attended), ("v", 0, true)];
                history.seen_by_ticket(at, &[], &waiters[..1 + usize::from(behind)])
            })
        };
        assert_eq!(seen(true, false).broken(), [FREE_LOCKS_ARE_GRANTED]);
        assert_eq!(seen(false, false).broken(), []);
        assert_eq!(seen(false, true).broken(), [FREE_LOCKS_ARE_GRANTED]);
    }
}
