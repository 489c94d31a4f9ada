//! Several locks at once: all or none.
//!
//! A holder that was granted several has each of them until its lease ends, and a waiter for several has none of them.
//! A violation shows only if the histories of all locks of a set are read together.
//!
//! Only holders that asked once are checked: another attempt under the same name may have been granted before.

use super::by_lock::LockHistory;
use super::certain::Surroundings;
use super::verdict::{ALL_OR_NONE, Verdict};
use crate::history::{Moment, Operation, Sample};
use std::collections::{HashMap, HashSet};

pub fn check(locks: &[LockHistory], verdict: &mut Verdict) {
    let mut seen_holding: HashMap<&str, (Moment, &str)> = HashMap::new();
    for lock in locks {
        let asked = lock.each(asks_once);
        if asked.is_empty() {
            continue;
        }
        let is_granted = |step: &&&Operation| step.granted().is_some();
        verdict.figures.add("grants of one of several", asked.values().filter(is_granted).count() as u64);
        lacks_one(lock, &asked, verdict);
        for (sample, holder) in lock.samples.iter().flat_map(|sample| holders(sample).map(move |it| (*sample, it))) {
            if asked.contains_key(holder) {
                let first = seen_holding.entry(holder).or_insert((sample.answered, lock.name));
                *first = (*first).min((sample.answered, lock.name));
            }
        }
    }
    for lock in locks {
        waits_with_one(lock, &seen_holding, verdict);
    }
}

/// The only attempt of a holder, if that was for several.
fn asks_once<'a>(steps: &[&'a Operation]) -> Option<&'a Operation> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    asked.next().filter(|step| step.is_of_several() && asked.next().is_none()).copied()
}

fn holders(sample: &Sample) -> impl Iterator<Item = &str> {
    sample.holders.iter().map(|holding| holding.holder.as_str())
}

/// Reports a holder that was granted all locks and is missing in a sample of one. Not if there are several servers, or if
/// one may have forgotten something: one server's answer proves nothing then.
fn lacks_one(lock: &LockHistory, asked: &HashMap<&str, &Operation>, verdict: &mut Verdict) {
    let servers: HashSet<&str> = lock.samples.iter().map(|sample| sample.server.as_str()).collect();
    if servers.len() > 1 || !lock.troubles.new_starts.is_empty() {
        return;
    }
    let mut reported = HashSet::new();
    for piece in Surroundings::of(lock).certain() {
        let holder = piece.step.holder();
        let from = lock.samples.partition_point(|sample| sample.asked < piece.from);
        let within = lock.samples[from..].iter().take_while(|sample| sample.asked < piece.until);
        let lacks = |sample: &&&Sample| sample.answered < piece.until && holders(sample).all(|it| it != holder);
        let Some(sample) = within.clone().find(lacks).filter(|_| asked.contains_key(holder)) else { continue };
        if reported.insert(holder) {
            let what = format!("{holder} was granted it together with others, and is not seen in it");
            verdict.violations.push(lock.violation(ALL_OR_NONE, sample.asked, what, &[piece.step]));
        }
    }
}

/// Reports a waiter for several locks that holds one of them.
fn waits_with_one(lock: &LockHistory, holding: &HashMap<&str, (Moment, &str)>, verdict: &mut Verdict) {
    let asked = lock.each(asks_once);
    let mut reported = HashSet::new();
    for (sample, waiting) in lock.samples.iter().flat_map(|sample| sample.waiters.iter().map(move |it| (sample, it))) {
        let holder = waiting.holder.as_str();
        let (Some(step), Some((held, other))) = (asked.get(holder), holding.get(holder)) else { continue };
        let is_wrong = *held <= sample.asked || holders(sample).any(|it| it == holder);
        if is_wrong && !lock.troubles.new_starts.touches(step.call.at, sample.answered) && reported.insert(holder) {
            let what = format!("{holder} waits for it, and held {other} before, which it wants together with it");
            verdict.violations.push(lock.violation(ALL_OR_NONE, sample.asked, what, &[step]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ALL_OR_NONE;
    use crate::checker::written::{Written, failover, granted, removed, take, unknown, wait, with};
    use crate::history::Request;
    use crate::history::Side::Plain;

    fn both(request: Request) -> Request {
        with(request, 0, &["m"])
    }

    fn has_both() -> Written {
        Written::default().did("a", both(take(100)), (0, 1), granted())
    }

    #[test]
    fn a_holder_of_all_is_seen_in_each() {
        assert_eq!(has_both().seen(50, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(has_both().seen(50, &[], &[]).broken(), [ALL_OR_NONE]);
        assert_eq!(has_both().seen(100, &[], &[]).broken(), [], "its lease may have ended");
        let unanswered = Written::default().did("a", both(take(100)), (0, 1), unknown());
        assert_eq!(unanswered.seen(50, &[], &[]).broken(), []);
        let one = Written::default().did("a", take(100), (0, 1), granted());
        assert_eq!(one.seen(50, &[], &[]).broken(), [], "that is another promise");
    }

    #[test]
    fn what_others_do_excuses_it() {
        assert_eq!(has_both().troubled((20, 21), removed(false)).seen(50, &[], &[]).broken(), []);
        assert_eq!(has_both().troubled((20, 21), failover()).seen(50, &[], &[]).broken(), []);
    }

    #[test]
    fn a_waiter_for_all_has_none() {
        let waits = || Written::default().called("a", both(wait(100, 0)), 0);
        assert_eq!(waits().seen(10, &[("b", Plain)], &[("a", Plain, 0)]).broken(), []);
        assert_eq!(waits().seen(10, &[("b", Plain)], &[("a", Plain, 0)]).seen(50, &[("a", Plain)], &[]).broken(), []);
        assert_eq!(waits().seen(10, &[("a", Plain)], &[("a", Plain, 0)]).broken(), [ALL_OR_NONE]);
        let on_another = waits().on("m").called("a", both(wait(100, 0)), 0).seen(10, &[("a", Plain)], &[]);
        assert_eq!(on_another.on("l").seen(20, &[("b", Plain)], &[("a", Plain, 0)]).broken(), [ALL_OR_NONE]);
        let granted = waits().on("m").called("a", both(wait(100, 0)), 0).seen(20, &[("a", Plain)], &[]);
        assert_eq!(granted.on("l").seen(10, &[("b", Plain)], &[("a", Plain, 0)]).broken(), []);
    }
}
