//! Tickets that lose their place.
//!
//! A ticket that waits has the place of the answer that said so, for as long as its session lives; whoever came later may pass
//! it only while nobody attends to the session. That it was attended to is certain where it was seen so again and again, while
//! one connection was polled all the time.

use super::by_lock::LockHistory;
use super::order::arrivals;
use super::runs::runs;
use super::sessions::Session;
use super::sets::MAY_PASS;
use super::verdict::{FIRST_COME_FIRST_SERVED, PASSED_SELDOM, Verdict};
use crate::history::{Moment, Operation, Sample, Waiting};
use std::collections::HashMap;
use std::time::Duration;

/// Somebody who was seen attended to twice within this was so in between: it is less than the time for which a session counts
/// as attended after an answer.
const CLOSE: Duration = Duration::from_millis(90);

/// A ticket, seen waiting and attended to from one sample to the other.
struct Stretch<'a> {
    holder: &'a str,
    is_for_several: bool,
    first: &'a Sample,
    last: &'a Sample,
}

/// Since when a ticket has its place.
struct Place<'a> {
    step: &'a Operation,
    since: Moment,
    session: &'a Session<'a>,
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let places = lock.each(|steps| place(lock, steps));
    if places.is_empty() {
        return;
    }
    let mut arrivals: Vec<(Moment, &Operation)> = arrivals(lock).collect();
    arrivals.sort_by_key(|(served, step)| (*served, step.call.at));
    for stretch in stretches(lock) {
        let Some(place) = places.get(stretch.holder).filter(|place| is_kept(lock, place, &stretch)) else { continue };
        let from = arrivals.partition_point(|(served, _)| *served <= stretch.first.asked);
        let until = arrivals.partition_point(|(served, _)| *served < stretch.last.asked);
        let (promise, may_pass) =
            if stretch.is_for_several { (PASSED_SELDOM, MAY_PASS) } else { (FIRST_COME_FIRST_SERVED, 0) };
        let mut later = arrivals[from..until.max(from)].iter().filter(|(_, step)| came_later(step, place, &stretch));
        let passed = later.nth(may_pass);
        if let Some(&(served, step)) = passed {
            let what = format!(
                "overtaken: {} had its place by ticket for {:?} when {} called, which was granted while session {} of \
                 server {} was attended to",
                stretch.holder,
                step.call.at.since(place.since),
                step.who(),
                place.session.name,
                stretch.last.server,
            );
            let evidence = [place.step, step];
            verdict.violations.push(lock.violation(promise, served, what, &evidence));
        }
    }
}

/// Whether it kept its place in all that time, and was attended to while it was seen.
fn is_kept(lock: &LockHistory, place: &Place, stretch: &Stretch) -> bool {
    let (since, until) = (place.since, stretch.last.answered);
    since <= stretch.first.asked
        && place.session.lived((since, until))
        && place.session.was_polled((stretch.first.asked, until))
        && !lock.troubles.may_end_sessions(since, until)
}

/// And waited still, or had not come yet, when the ticket was first seen.
fn came_later(step: &Operation, place: &Place, stretch: &Stretch) -> bool {
    let waits_behind = || stretch.first.waiters.iter().any(|waiting| waiting.holder == step.who());
    step.who() != stretch.holder
        && step.call.at > place.since
        && (step.call.at > stretch.first.answered || waits_behind())
}

/// Of a holder of whose attempts none may still be under way. Who asked in several sessions has the place of the last.
fn place<'a>(lock: &LockHistory<'a>, steps: &[&'a Operation]) -> Option<Place<'a>> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    if !asked.clone().all(|step| step.has_arrived()) {
        return None;
    }
    let name = asked.clone().max_by_key(|step| step.queued)?.session()?;
    let step = *asked.find(|step| step.session() == Some(name) && step.queued.is_some())?;
    Some(Place { step, since: step.queued?, session: lock.sessions.get(name)? })
}

fn stretches<'a>(lock: &LockHistory<'a>) -> Vec<Stretch<'a>> {
    // How often each server was looked at: nobody is missed in between.
    let mut looks: HashMap<&str, u64> = HashMap::new();
    let mut seen = Vec::new();
    for &sample in &lock.samples {
        let number = looks.entry(&sample.server).and_modify(|it| *it += 1).or_default();
        let attended = sample.waiters.iter().filter(|it| it.by.is_ticket() && it.by.is_attended());
        seen.extend(attended.map(|it| ((&sample.server, &it.holder), (*number, sample, it))));
    }
    let goes_on = |earlier: (u64, &Sample, &Waiting), later: (u64, &Sample, &Waiting)| {
        earlier.0 + 1 == later.0 && later.1.asked.since(earlier.1.answered) <= CLOSE
    };
    let stretches = runs(seen, goes_on).into_iter().map(|((_, first, waiting), (_, last, _))| Stretch {
        holder: &waiting.holder,
        is_for_several: waiting.is_for_several(),
        first,
        last,
    });
    let mut stretches: Vec<Stretch> = stretches.filter(|it| it.first.answered < it.last.asked).collect();
    stretches.sort_by_key(|stretch| (stretch.first.asked, stretch.holder));
    stretches
}

#[cfg(test)]
mod tests {
    use super::{FIRST_COME_FIRST_SERVED, PASSED_SELDOM};
    use crate::checker::written::{Written, failover, granted, script, take, wait};
    use crate::history::Side::Plain;

    /// A ticket has its place from 5 on, and `b` waits from 20 on.
    fn waiting() -> Written {
        Written::default().polled((0, 1), 1, 0, &[]).queued("w", 50, (2, 5)).polled_all((0, 3_000), 1)
    }

    /// Seen so at these times.
    fn seen(mut history: Written, at: &[(u64, bool)]) -> Written {
        for (at, is_attended) in at {
            history = history.seen_by_ticket(*at, &[("x", Plain)], &[("w", 5, *is_attended), ("b", 20, true)]);
        }
        history
    }

    const ATTENDED: [(u64, bool); 4] = [(300, true), (350, true), (400, true), (450, true)];

    #[test]
    fn who_came_later_is_served_later() {
        let history = || seen(waiting(), &ATTENDED);
        assert_eq!(history().did("b", wait(50, 0), (20, 420), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(history().did("c", wait(50, 0), (310, 420), granted()).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(history().did("b", wait(50, 0), (20, 500), granted()).broken(), []);
    }

    #[test]
    fn who_waits_for_several_is_passed_by_four_at_most() {
        let passed = |count: u64| {
            let history = ATTENDED.iter().fold(waiting(), |history, look| seen(history, &[*look]).for_several());
            (1..=count).fold(history, |history, number| {
                let at = 300 + number * 20;
                history.did(&format!("c{number}"), take(5), (at, at + 1), granted())
            })
        };
        assert_eq!(passed(4).broken(), []);
        assert_eq!(passed(5).broken(), [PASSED_SELDOM]);
    }

    #[test]
    fn who_came_before_or_knows_no_queue_is_served_before() {
        let history = || seen(waiting(), &ATTENDED);
        assert_eq!(history().did("b", wait(50, 0), (4, 420), granted()).broken(), []);
        assert_eq!(history().did("c", wait(50, 0), (250, 420), granted()).broken(), [], "when nobody looked");
        assert_eq!(history().did("c", script(50), (310, 420), granted()).broken(), []);
    }

    #[test]
    fn whoever_is_not_attended_to_is_passed() {
        let by = |history: Written| history.did("b", wait(50, 0), (20, 420), granted()).broken();
        assert_eq!(by(seen(waiting(), &[(300, true), (350, false), (400, false), (450, true)])), []);
        assert_eq!(by(seen(waiting(), &[(300, true), (450, true)])), [], "nobody looked for so long");
        let two = || {
            Written::default()
                .polled((0, 1), 1, 0, &[])
                .queued("w", 50, (2, 5))
                .polled_all((0, 400), 1)
                .polled_all((410, 3_000), 2)
        };
        assert_eq!(by(seen(two(), &ATTENDED)), [], "another connection");
    }

    #[test]
    fn the_place_is_kept_from_one_connection_to_the_next() {
        let history = |again: u64| {
            let history = Written::default()
                .polled((0, 1), 1, 0, &[])
                .queued("w", 50, (2, 5))
                .polled_all((0, 200), 1)
                .polled_all((again, 5_000), 2);
            let at = [500, 550, 600, 650].map(|at| (again + at, true));
            // As one that has waited since then only.
            let mut history = history.did("b", wait(50, 0), (20, again + 620), granted());
            for (at, _) in at {
                history = history.seen_by_ticket(at, &[("x", Plain)], &[("b", 20, true), ("w", again, true)]);
            }
            history
        };
        assert_eq!(history(400).broken(), [FIRST_COME_FIRST_SERVED]);
        assert_eq!(history(1_500).broken(), [], "the session had ended");
        assert_eq!(history(400).troubled((300, 310), failover()).broken(), []);
    }

    #[test]
    fn of_what_may_be_under_way_nobody_knows_the_place() {
        let history = seen(waiting(), &ATTENDED).called("w", crate::checker::written::by_ticket(50), 7);
        assert_eq!(history.did("b", wait(50, 0), (20, 420), granted()).broken(), []);
    }
}
