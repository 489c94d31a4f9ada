//! Later requests that were granted first.
//!
//! No request overtakes a waiter that could be served. A waiter for several locks may be overtaken by four requests at
//! most, on all its locks together. A ticket may be overtaken while its session is unattended, and keeps its place from
//! one connection to the next. So its place is as old as its wait, and it is judged only for the times in which it was
//! certainly attended.

use super::by_lock::LockHistory;
use super::verdict::{FIRST_COME_FIRST_SERVED, OVERTAKEN_SELDOM, Verdict};
use super::waits::{Seen, Wait, is_same, waits_by};
use crate::history::{Moment, Operation, WaitsBy};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many requests may overtake a waiter for several locks.
const MAY_PASS: usize = 4;

/// If a ticket was seen attended on one connection twice within this time, it was attended in between: a session counts
/// as attended for a tenth of its TTL after an answer, which is longer.
const CLOSE: Duration = Duration::from_millis(200);

/// By holder: when it was granted, which lock, by which step. A request for several locks counts once.
type Passers<'l, 'a> = BTreeMap<&'a str, (Moment, &'l LockHistory<'a>, &'a Operation)>;

pub fn check(locks: &[LockHistory], verdict: &mut Verdict) {
    // By waiter, by server, and by whether it waits for several.
    let mut passed: BTreeMap<(&str, &str, bool), Passers> = BTreeMap::new();
    for lock in locks {
        let mut arrivals: Vec<(Moment, &Operation)> = arrivals(lock).collect();
        arrivals.sort_by_key(|(served, step)| (*served, step.call.at));
        let waits = waits_by(lock, goes_on).into_iter().filter(|wait| is_in_one_queue(lock, wait));
        for wait in waits {
            let from = arrivals.partition_point(|(served, _)| *served <= wait.first.asked);
            let until = arrivals.partition_point(|(served, _)| *served < wait.last.asked);
            let later = arrivals[from..until.max(from)].iter().filter(|(_, step)| came_later(step, &wait));
            let by =
                passed.entry((&wait.waiting.holder, &wait.last.server, wait.waiting.is_for_several())).or_default();
            by.extend(later.map(|(served, step)| (step.holder(), (*served, lock, *step))));
        }
    }
    for ((waiter, server, is_for_several), by) in passed {
        let (promise, may_pass) =
            if is_for_several { (OVERTAKEN_SELDOM, MAY_PASS) } else { (FIRST_COME_FIRST_SERVED, 0) };
        let mut by: Vec<_> = by.into_values().collect();
        by.sort_by_key(|(served, _, step)| (*served, step.call.at));
        if let Some((served, lock, step)) = by.get(may_pass) {
            let (holder, count) = (step.holder(), by.len());
            let what = format!(
                "overtaken: {waiter} already waited at server {server} when {holder} called, which was granted first; \
                 {count} overtook it"
            );
            let evidence: Vec<&Operation> = lock.last_of(waiter).into_iter().chain([*step]).collect();
            verdict.violations.push(lock.violation(promise, *served, what, &evidence));
        }
    }
}

/// Whether a waiter in two samples has waited, and could be served, all the time in between.
fn goes_on(earlier: Seen, later: Seen) -> bool {
    let stays = match (&earlier.1.by, &later.1.by) {
        (WaitsBy::Ticket { connection, is_attended: true, .. }, WaitsBy::Ticket { .. }) => {
            connection.is_some() && earlier.1.by == later.1.by && later.0.asked.since(earlier.0.answered) <= CLOSE
        }
        (_, by) => !by.is_ticket(),
    };
    stays && is_same(earlier, later)
}

/// Another server may have another queue, and a clock that was moved does not say how long a client has waited.
fn is_in_one_queue(lock: &LockHistory, wait: &Wait) -> bool {
    let (began, ended) = (wait.first.asked.min(wait.begun_by()), wait.last.answered);
    !lock.troubles.new_starts.touches(began, ended) && !lock.troubles.clock_steps.touches(began, ended)
}

/// Whether the request was made after the wait began, and was not granted yet in the waiter's first sample.
fn came_later(step: &Operation, wait: &Wait) -> bool {
    let waits_behind = || wait.first.waiters.iter().any(|waiting| waiting.holder == step.holder());
    let is_other = step.holder() != wait.waiting.holder;
    is_other && step.call.at > wait.begun_by() && (step.call.at > wait.first.answered || waits_behind())
}

/// The first grant to each holder: when it was answered, and by which step. Not those to scripts, which do not queue.
fn arrivals<'a>(lock: &LockHistory<'a>) -> impl Iterator<Item = (Moment, &'a Operation)> {
    lock.holders.iter().filter_map(|steps| {
        let step = *steps.iter().find(|step| step.asks_for().is_some() && !step.did_nothing())?;
        let (served, _) = step.granted()?;
        (!step.is_by_script()).then_some((served, step))
    })
}

#[cfg(test)]
mod tests {
    use super::{FIRST_COME_FIRST_SERVED, OVERTAKEN_SELDOM};
    use crate::checker::written::{Written, failover, granted, restart, script, take, wait};
    use crate::history::Side::Plain;

    /// One waiter from 0 on, seen until 100.
    fn waiting() -> Written {
        let first = Written::default().called("w", wait(50, 0), 0);
        first.seen(10, &[("x", Plain)], &[("w", Plain, 1)]).seen(100, &[("x", Plain)], &[("w", Plain, 1)])
    }

    #[test]
    fn an_earlier_request_may_be_granted_earlier() {
        assert_eq!(waiting().did("b", wait(5, 0), (0, 50), granted()).broken(), []);
        assert_eq!(waiting().did("b", wait(5, 0), (20, 150), granted()).broken(), []);
    }

    #[test]
    fn a_later_request_is_granted_later() {
        assert_eq!(waiting().did("b", wait(5, 0), (20, 50), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(waiting().did("b", take(5), (20, 50), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
    }

    #[test]
    fn scripts_and_those_within_may_pass() {
        assert_eq!(waiting().did("b", script(5), (20, 50), granted()).broken(), []);
        let within = Written::default().did("b", take(200), (0, 1), granted());
        let within = within.seen(10, &[("b", Plain)], &[("w", Plain, 1)]).seen(100, &[], &[("w", Plain, 1)]);
        assert_eq!(within.did("b", take(200), (20, 50), granted()).broken(), []);
    }

    #[test]
    fn a_waiter_that_begins_again_is_behind() {
        let again = Written::default().seen(10, &[], &[("w", Plain, 1)]).seen(100, &[], &[("w", Plain, 60)]);
        assert_eq!(again.did("b", wait(5, 0), (20, 50), granted()).broken(), []);
    }

    #[test]
    fn a_failover_makes_new_queues() {
        let history = waiting().troubled((60, 70), failover());
        assert_eq!(history.did("b", wait(5, 0), (20, 50), granted()).broken(), []);
    }

    const ATTENDED: [(u64, bool); 4] = [(1_300, true), (1_350, true), (1_400, true), (1_450, true)];

    /// Samples at these times: a ticket waits from 5 on, and `b` from 20 on.
    fn by_ticket(at: &[(u64, bool)]) -> Written {
        at.iter().fold(Written::default(), |history, (at, is_attended)| {
            history.seen_by_ticket(*at, &[("x", Plain)], &[("w", 5, *is_attended), ("b", 20, true)])
        })
    }

    #[test]
    fn a_request_after_a_ticket_is_granted_after_it() {
        let history = || by_ticket(&ATTENDED);
        assert_eq!(history().did("b", wait(50, 0), (20, 1_420), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
        // It passes `b` as well.
        assert_eq!(
            history().did("c", wait(50, 0), (1_310, 1_420), granted()).broken(),
            [FIRST_COME_FIRST_SERVED, FIRST_COME_FIRST_SERVED]
        );
        assert_eq!(history().did("b", wait(50, 0), (20, 1_500), granted()).broken(), []);
        assert_eq!(history().did("b", wait(50, 0), (4, 1_420), granted()).broken(), []);
        assert_eq!(history().did("c", wait(50, 0), (1_250, 1_420), granted()).broken(), [], "between samples");
        assert_eq!(history().did("c", script(50), (1_310, 1_420), granted()).broken(), []);
    }

    #[test]
    fn an_unattended_waiter_is_overtaken() {
        let by = |history: Written| history.did("b", wait(50, 0), (20, 1_420), granted()).broken();
        assert_eq!(by(by_ticket(&[(1_300, true), (1_350, false), (1_400, false), (1_450, true)])), []);
        assert_eq!(by(by_ticket(&[(1_200, true), (1_450, true)])), [], "without samples for too long");
        assert_eq!(by(by_ticket(&ATTENDED).on_connection(8)), [], "another connection");
        assert_eq!(by(by_ticket(&ATTENDED).troubled((150, 160), restart())), []);
    }

    #[test]
    fn the_place_is_kept_from_one_connection_to_the_next() {
        let history = |since: u64| {
            let before = by_ticket(&[(100, true)]).on_connection(8);
            let cut = before.did("b", wait(50, 0), (20, 1_420), granted());
            ATTENDED.iter().fold(cut, |history, (at, is_attended)| {
                history.seen_by_ticket(*at, &[("x", Plain)], &[("w", since, *is_attended), ("b", 20, true)])
            })
        };
        assert_eq!(history(5).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(history(250).broken(), [], "the session had ended");
    }

    #[test]
    fn a_ticket_for_several_is_passed_by_four_at_most() {
        let passed = |count: u64| {
            let history = ATTENDED.iter().fold(Written::default(), |history, (at, is_attended)| {
                history.seen_by_ticket(*at, &[("x", Plain)], &[("w", 5, *is_attended)]).for_several()
            });
            (1..=count).fold(history, |history, number| {
                let at = 1_300 + number * 20;
                history.did(&format!("c{number}"), take(5), (at, at + 1), granted())
            })
        };
        assert_eq!(passed(4).broken(), []);
        assert_eq!(passed(5).broken(), [OVERTAKEN_SELDOM]);
    }

    /// `w` waits for two locks; this many requests overtake it on the first, the second, and both.
    fn passed((first, second, both_at_once): (u64, u64, u64)) -> Written {
        let seen = |history: Written, at| history.seen(at, &[("x", Plain)], &[("w", Plain, 1)]).for_several();
        let look = |history: Written, lock| seen(seen(history.on(lock), 10), 190);
        let pass = |history: Written, lock, (names, after): (&str, u64), count: u64| {
            (1..=count).fold(history.on(lock), |history, number| {
                let at = after + number * 20;
                history.did(&format!("{names}{number}"), take(5), (at, at + 1), granted())
            })
        };
        let history = pass(look(Written::default(), "l"), "l", ("one", 0), first);
        let history = pass(pass(history, "l", ("both", 10), both_at_once), "l2", ("two", 0), second);
        pass(look(history, "l2"), "l2", ("both", 10), both_at_once)
    }

    #[test]
    fn a_waiter_for_several_is_overtaken_by_four_at_most() {
        assert_eq!(passed((4, 0, 0)).broken(), []);
        assert_eq!(passed((5, 0, 0)).broken(), [OVERTAKEN_SELDOM]);
        assert_eq!(passed((2, 2, 0)).broken(), []);
        assert_eq!(passed((3, 2, 0)).broken(), [OVERTAKEN_SELDOM], "on all together");
        assert_eq!(passed((2, 0, 2)).broken(), [], "each once");
        assert_eq!(passed((2, 1, 2)).broken(), [OVERTAKEN_SELDOM]);
    }
}
