//! Times that are longer than was asked for: of a wait, and of a lease.

use super::by_lock::LockHistory;
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Reach, Request, Sample, Side};
use std::collections::HashMap;
use std::time::Duration;

/// How late the end of a wait may be, beside the time in which the server could do nothing.
const LATE: Duration = Duration::from_millis(500);

/// What a lease may be longer in a sample than it was asked for: times are counted in whole ms.
const ROUGHNESS_MS: i64 = 5;

struct Asked {
    /// None: it did not wait.
    wait_ms: Option<u64>,
    /// The longest lease that it has asked for in whatever way.
    lease_ms: u64,
    named: (String, u64),
}

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>) {
    let asked = asked(lock);
    let leases_are_known = leases_are_known(lock, troubles);
    for &sample in &lock.samples {
        violations.extend(waits_on(lock, sample, &asked, troubles));
        if leases_are_known {
            violations.extend(lasts_longer(lock, sample, &asked));
        }
    }
}

/// What each holder has asked for. A name that asks for a wait more than once waits for as long as the longest.
fn asked<'a>(lock: &LockHistory<'a>) -> HashMap<&'a str, Asked> {
    let mut asked: HashMap<&str, Asked> = HashMap::new();
    for step in &lock.steps {
        let (lease_ms, wait_ms) = match step.call().request {
            Request::Acquire { lease_ms, wait_ms, .. } => (lease_ms, wait_ms.map(or_for_ever)),
            // Its own waits are its own affair.
            Request::Guard { lease_ms, .. } | Request::Renew { lease_ms } => (lease_ms, None),
            Request::Release { .. } | Request::Cancel { .. } => continue,
        };
        let known = asked.entry(step.who()).or_insert_with(|| Asked { wait_ms, lease_ms, named: step.named() });
        known.lease_ms = known.lease_ms.max(lease_ms);
        known.wait_ms = known.wait_ms.max(wait_ms);
    }
    asked
}

/// As on the wire.
fn or_for_ever(wait_ms: u64) -> u64 {
    if wait_ms == 0 { u64::MAX } else { wait_ms }
}

fn waits_on(
    lock: &LockHistory,
    sample: &Sample,
    asked: &HashMap<&str, Asked>,
    troubles: &Troubles,
) -> Option<Violation> {
    let late = |waited_ms: i64, limit: u64| {
        let waited = Duration::from_millis(waited_ms.unsigned_abs());
        // By a clock that was stepped meanwhile nobody has waited for what it says.
        if troubles.clock_steps.touches(sample.asked - waited, sample.answered) {
            return Duration::ZERO;
        }
        let over = waited.saturating_sub(Duration::from_millis(limit));
        // It may have been looked at as late as that.
        troubles.quiet(lock.name, sample.answered - over, sample.answered)
    };
    let overdue = sample.waiters.iter().find_map(|waiting| {
        let asked = asked.get(waiting.holder.as_str())?;
        let limit = asked.wait_ms.filter(|limit| late(waiting.waited_ms, *limit) > LATE)?;
        Some((waiting, limit, asked))
    });
    overdue.map(|(waiting, limit, asked)| Violation {
        promise: Promise::WaitsEnd,
        lock: lock.name.to_owned(),
        at: sample.asked,
        what: format!(
            "{} ({} at server {}) has waited for {} ms and asked for {limit}",
            waiting.holder, waiting.by, sample.server, waiting.waited_ms
        ),
        evidence: vec![asked.named.clone()],
    })
}

/// Not where somebody else sets expiries, a clock was stepped, or writers add one lease to the other.
fn leases_are_known(lock: &LockHistory, troubles: &Troubles) -> bool {
    let is_changed = |reach: &Reach| match reach {
        Reach::Locks { locks, .. } => locks.is_empty() || locks.iter().any(|it| it == lock.name),
        Reach::ClockStep { .. } => true,
        _ => false,
    };
    let is_plain = lock.steps.iter().all(|step| step.asks_for().is_none_or(|side| side == Side::Plain));
    is_plain && !troubles.all.iter().any(|trouble| is_changed(&trouble.reach))
}

fn lasts_longer(lock: &LockHistory, sample: &Sample, asked: &HashMap<&str, Asked>) -> Option<Violation> {
    let [holding] = sample.holders.as_slice() else { return None };
    let asked = asked.get(holding.holder.as_str())?;
    let longest = i64::try_from(asked.lease_ms).ok()?;
    (sample.ttl_ms > longest + ROUGHNESS_MS).then(|| Violation {
        promise: Promise::LeasesAsAskedFor,
        lock: lock.name.to_owned(),
        at: sample.asked,
        what: format!("{} has {} ms left and has never asked for more than {longest}", holding.holder, sample.ttl_ms),
        evidence: vec![asked.named.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::Promise::{LeasesAsAskedFor, WaitsEnd};
    use crate::checker::written::{Written, acquire, clock, failover, granted, removed, renew, take, wait};
    use crate::history::Side::{Plain, Write};

    /// `w` may wait for 300 ms from 0 on, and is still seen then.
    fn waiting(at: u64) -> Written {
        Written::default().called("w", wait(5_000, 300), 0).seen(at, &[("x", Plain)], &[("w", Plain, 0)])
    }

    #[test]
    fn a_wait_may_be_a_little_late() {
        assert_eq!(waiting(700).broken(), []);
        assert_eq!(waiting(900).broken(), [WaitsEnd]);
    }

    #[test]
    fn a_wait_may_be_for_ever() {
        let history = Written::default().called("w", wait(5_000, 0), 0);
        assert_eq!(history.seen(9_000, &[("x", Plain)], &[("w", Plain, 0)]).broken(), []);
    }

    #[test]
    fn a_server_that_could_do_nothing_is_excused() {
        assert_eq!(waiting(900).troubled((350, 700), failover()).broken(), []);
        assert_eq!(waiting(2_000).troubled((350, 700), failover()).broken(), [WaitsEnd]);
        assert_eq!(waiting(2_000).troubled((350, 360), clock(1_800)).broken(), []);
    }

    fn held(left_ms: i64) -> Written {
        let history = Written::default().did("x", take(1_000), (0, 1), granted());
        history.seen_with(10, left_ms, &[("x", Plain)], &[])
    }

    #[test]
    fn a_lease_is_what_it_was_asked_for() {
        assert_eq!(held(1_000).broken(), []);
        assert_eq!(held(1_100).broken(), [LeasesAsAskedFor]);
        assert_eq!(held(1_100).called("x", renew(2_000), 5).broken(), []);
    }

    #[test]
    fn a_lease_may_be_longer_by_others_doing() {
        assert_eq!(held(1_100).troubled((3, 4), removed(false)).broken(), []);
        assert_eq!(held(1_100).troubled((3, 4), clock(-500)).broken(), []);
        let twice = Written::default().did("x", acquire(Write, 1_000), (0, 1), granted());
        let twice = twice.did("x", acquire(Write, 1_000), (2, 3), granted());
        assert_eq!(twice.seen_with(10, 1_990, &[("x", Write)], &[]).broken(), []);
    }
}
