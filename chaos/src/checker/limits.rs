//! Waits and leases that last longer than requested.

use super::by_lock::LockHistory;
use super::verdict::{LEASES_AS_ASKED_FOR, Verdict, Violation, WAITS_END};
use crate::history::{Moment, Operation, Request, Sample, Side};
use std::collections::HashMap;
use std::time::Duration;

/// How late the end of a wait may be, in addition to the time in which the server could do nothing.
const LATE: Duration = Duration::from_millis(500);

/// How much longer than requested a lease may be in a sample: times are counted in whole ms.
const ROUGHNESS_MS: i64 = 5;

/// What a holder has requested.
struct Asked<'a> {
    /// The longest of its waits. None: it did not wait.
    wait_ms: Option<u64>,
    /// The longest lease that it has requested in any way.
    lease_ms: u64,
    step: &'a Operation,
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let asked = lock.each(asked);
    let leases_are_known = leases_are_known(lock);
    for sample in &lock.samples {
        verdict.violations.extend(waits_on(lock, sample, &asked));
        verdict.violations.extend(lasts_longer(lock, sample, &asked).filter(|_| leases_are_known));
    }
}

fn asked<'a>(steps: &[&'a Operation]) -> Option<Asked<'a>> {
    // As in the protocol, 0 has no limit.
    let wait = |step: &&Operation| match step.call.request {
        Request::Acquire { wait_ms, .. } => wait_ms.map(|wait| if wait == 0 { u64::MAX } else { wait }),
        // Guards repeat their waits by themselves.
        _ => None,
    };
    let lease = |step: &&Operation| step.call.request.lease_ms();
    let (wait_ms, lease_ms) = (steps.iter().filter_map(wait).max(), steps.iter().filter_map(lease).max()?);
    Some(Asked { wait_ms, lease_ms, step: steps[0] })
}

fn waits_on(lock: &LockHistory, sample: &Sample, asked: &HashMap<&str, Asked>) -> Option<Violation> {
    let late = |waited_ms: i64, limit: u64| {
        let waited = Duration::from_millis(waited_ms.unsigned_abs());
        // If a clock was stepped meanwhile, the server's figure is not how long the client has waited.
        if lock.troubles.clock_steps.touches(sample.asked - waited, sample.answered) {
            return Duration::ZERO;
        }
        let over = waited.saturating_sub(Duration::from_millis(limit));
        // The server may have made this sample as late as at `answered`.
        lock.quiet(sample.answered - over, sample.answered)
    };
    let mut waiters = sample.waiters.iter();
    let (waiting, limit, step) = waiters.find_map(|waiting| {
        let asked = asked.get(waiting.holder.as_str())?;
        let limit = asked.wait_ms.filter(|limit| late(waiting.waited_ms, *limit) > LATE)?;
        Some((waiting, limit, asked.step))
    })?;
    let what = format!("{waiting:?} at server {} asked for a wait of {limit} ms", sample.server);
    Some(lock.violation(WAITS_END, sample.asked, what, &[step]))
}

/// False if faults set expiries, a clock was stepped, or writers add one lease to another.
fn leases_are_known(lock: &LockHistory) -> bool {
    let is_plain = lock.steps.iter().all(|step| step.asks_for().is_none_or(|side| side == Side::Plain));
    let have_one_clock = lock.troubles.clock_steps.is_empty() && lock.troubles.clocks_apart.is_empty();
    is_plain && have_one_clock && !lock.is_removed(Moment(0), Moment(u64::MAX))
}

fn lasts_longer(lock: &LockHistory, sample: &Sample, asked: &HashMap<&str, Asked>) -> Option<Violation> {
    let [holding] = sample.holders.as_slice() else { return None };
    let Asked { lease_ms, step, .. } = asked.get(holding.holder.as_str())?;
    let is_longer = sample.ttl_ms > i64::try_from(*lease_ms).ok()? + ROUGHNESS_MS;
    let what = || format!("{holding:?} with {} ms left has never asked for more than {lease_ms}", sample.ttl_ms);
    is_longer.then(|| lock.violation(LEASES_AS_ASKED_FOR, sample.asked, what(), &[step]))
}

#[cfg(test)]
mod tests {
    use super::{LEASES_AS_ASKED_FOR, WAITS_END};
    use crate::checker::written::{
        Written, acquire, clock, clocks_apart, failover, granted, removed, renew, take, wait,
    };
    use crate::history::Side::{Plain, Write};

    /// `w` may wait for 300 ms from 0 on, and still waits in a sample `at` this time.
    fn waiting(at: u64) -> Written {
        Written::default().called("w", wait(5_000, 300), 0).seen(at, &[("x", Plain)], &[("w", Plain, 0)])
    }

    #[test]
    fn a_wait_may_be_a_little_late() {
        assert_eq!(waiting(700).broken(), []);
        assert_eq!(waiting(900).broken(), [WAITS_END]);
    }

    #[test]
    fn a_wait_may_have_no_limit() {
        let history = Written::default().called("w", wait(5_000, 0), 0);
        assert_eq!(history.seen(9_000, &[("x", Plain)], &[("w", Plain, 0)]).broken(), []);
    }

    #[test]
    fn a_server_that_could_do_nothing_is_excused() {
        assert_eq!(waiting(900).troubled((350, 700), failover()).broken(), []);
        assert_eq!(waiting(2_000).troubled((350, 700), failover()).broken(), [WAITS_END]);
        assert_eq!(waiting(2_000).troubled((350, 360), clock(1_800)).broken(), []);
    }

    fn held(left_ms: i64) -> Written {
        let history = Written::default().did("x", take(1_000), (0, 1), granted());
        history.seen_with(10, left_ms, &[("x", Plain)], &[])
    }

    #[test]
    fn a_lease_is_what_it_was_asked_for() {
        assert_eq!(held(1_000).broken(), []);
        assert_eq!(held(1_100).broken(), [LEASES_AS_ASKED_FOR]);
        assert_eq!(held(1_100).called("x", renew(2_000), 5).broken(), []);
    }

    #[test]
    fn a_lease_may_be_longer_by_others_doing() {
        assert_eq!(held(1_100).troubled((3, 4), removed(false)).broken(), []);
        assert_eq!(held(1_100).troubled((3, 4), clock(-500)).broken(), []);
        assert_eq!(held(1_100).troubled((3, 4), clocks_apart()).broken(), []);
        let twice = Written::default().did("x", acquire(Write, 1_000), (0, 1), granted());
        let twice = twice.did("x", acquire(Write, 1_000), (2, 3), granted());
        assert_eq!(twice.seen_with(10, 1_990, &[("x", Write)], &[]).broken(), []);
    }
}
