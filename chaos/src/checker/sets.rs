//! Several locks at once: all or none.
//!
//! And who waits for all of them is passed on those that are free, but seldom.
//!
//! Whoever was granted several has each of them until its lease ends; whoever waits for several has none of them; and what was
//! given back is gone. What a set of locks has of one is seen there, so the histories of its locks are read together.
//!
//! Only of a holder that has asked once: another attempt in its name may have been granted before.

use super::by_lock::LockHistory;
use super::certain::Surroundings;
use super::order::{arrivals, waits_in_one_queue};
use super::verdict::{ALL_OR_NONE, PASSED_SELDOM, Verdict};
use crate::history::{Answer, Moment, Operation, Sample};
use std::collections::{BTreeMap, HashMap, HashSet};

/// So many may pass whoever waits for several locks, on all of them together.
pub const MAY_PASS: usize = 4;

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
        keeps_one(lock, verdict);
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
    is_passed_often(locks, verdict);
}

/// By their names: when each was let in, on which lock, by which step.
type Passers<'l, 'a> = BTreeMap<&'a str, (Moment, &'l LockHistory<'a>, &'a Operation)>;

/// By those who came later and were let in on any of the locks. Who wants several of them passes once.
fn is_passed_often(locks: &[LockHistory], verdict: &mut Verdict) {
    let mut passed: BTreeMap<(&str, &str), Passers> = BTreeMap::new();
    for lock in locks {
        let waits = waits_in_one_queue(lock);
        for wait in waits.iter().filter(|wait| wait.waiting.is_for_several()) {
            let later = arrivals(lock).filter(|(_, step)| step.call.at > wait.begun_by());
            let later = later.filter(|(served, _)| *served < wait.last.asked);
            let by = passed.entry((&wait.waiting.holder, &wait.last.server)).or_default();
            by.extend(later.map(|(served, step)| (step.who(), (served, lock, step))));
        }
    }
    for ((holder, server), by) in passed {
        verdict.figures.add("longest row that passed who waits for several", by.len() as u64);
        let mut by: Vec<_> = by.into_values().collect();
        by.sort_by_key(|(served, _, step)| (*served, step.call.at));
        if let Some((served, lock, step)) = by.get(MAY_PASS) {
            let count = by.len();
            let what =
                format!("{holder} waits at server {server}, and {count} passed it; {} was one too many", step.who());
            let evidence: Vec<&Operation> = lock.last_of(holder).into_iter().chain([*step]).collect();
            verdict.violations.push(lock.violation(PASSED_SELDOM, *served, what, &evidence));
        }
    }
}

/// Its only attempt, if that was for several.
fn asks_once<'a>(steps: &[&'a Operation]) -> Option<&'a Operation> {
    let mut asked = steps.iter().filter(|step| step.asks_for().is_some());
    asked.next().filter(|step| step.is_of_several() && asked.next().is_none()).copied()
}

fn holders(sample: &Sample) -> impl Iterator<Item = &str> {
    sample.holders.iter().map(|holding| holding.holder.as_str())
}

/// Who was granted all is seen in each. Where servers forget or are several, what one of them says proves nothing.
fn lacks_one(lock: &LockHistory, asked: &HashMap<&str, &Operation>, verdict: &mut Verdict) {
    let servers: HashSet<&str> = lock.samples.iter().map(|sample| sample.server.as_str()).collect();
    if servers.len() > 1 || !lock.troubles.new_starts.is_empty() {
        return;
    }
    let mut told = HashSet::new();
    for piece in Surroundings::of(lock).certain() {
        let who = piece.step.who();
        let from = lock.samples.partition_point(|sample| sample.asked < piece.from);
        let within = lock.samples[from..].iter().take_while(|sample| sample.asked < piece.until);
        let lacks = |sample: &&&Sample| sample.answered < piece.until && holders(sample).all(|holder| holder != who);
        let Some(sample) = within.clone().find(lacks).filter(|_| asked.contains_key(who)) else { continue };
        if told.insert(who) {
            let what = format!("{who} was granted it together with others, and is not seen in it");
            verdict.violations.push(lock.violation(ALL_OR_NONE, sample.asked, what, &[piece.step]));
        }
    }
}

/// What was given back once is gone: it was granted once.
fn keeps_one(lock: &LockHistory, verdict: &mut Verdict) {
    let given_back = lock.each(|steps| {
        let asked = asks_once(steps)?;
        let (granted, _) = asked.granted()?;
        let is_given = |step: &&&Operation| matches!(step.known_answer(), Some(Answer::Released(_)));
        let step = steps.iter().find(is_given).filter(|step| step.call.at >= granted)?;
        Some((asked.call.at, *step))
    });
    lock.tell_once(ALL_OR_NONE, verdict, |seen| {
        let asked = seen.sample.asked;
        let (began, step) = *given_back.get(seen.holder).filter(|(_, step)| asked > step.done())?;
        // What is given back to one master another one may still have, and what was moved away may come back.
        let is_elsewhere = lock.troubles.new_starts.touches(began, asked) || lock.is_removed(began, asked);
        (!is_elsewhere).then(|| ("although it was given back".to_owned(), step))
    });
}

/// Who has one of them, or had one before, does not wait for all.
fn waits_with_one(lock: &LockHistory, holding: &HashMap<&str, (Moment, &str)>, verdict: &mut Verdict) {
    let asked = lock.each(asks_once);
    let mut told = HashSet::new();
    for (sample, waiting) in lock.samples.iter().flat_map(|sample| sample.waiters.iter().map(move |it| (sample, it))) {
        let who = waiting.holder.as_str();
        let (Some(step), Some((held, other))) = (asked.get(who), holding.get(who)) else { continue };
        let is_wrong = *held <= sample.asked || holders(sample).any(|holder| holder == who);
        if is_wrong && !lock.troubles.new_starts.touches(step.call.at, sample.answered) && told.insert(who) {
            let what = format!("{who} waits for it, and held {other} before, which it wants together with it");
            verdict.violations.push(lock.violation(ALL_OR_NONE, sample.asked, what, &[step]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL_OR_NONE, PASSED_SELDOM};
    use crate::checker::written::{Written, failover, give, granted, removed, take, unknown, wait, with};
    use crate::history::Side::Plain;
    use crate::history::{Answer, Request};

    fn both(request: Request) -> Request {
        with(request, 0, &["m"])
    }

    fn has_both() -> Written {
        Written::default().did("a", both(take(100)), (0, 1), granted())
    }

    #[test]
    fn who_was_granted_all_is_seen_in_each() {
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
    fn what_was_given_back_is_gone() {
        let given = || has_both().did("a", give(Plain), (10, 11), Answer::Released(Some(1)));
        assert_eq!(given().seen(20, &[("b", Plain)], &[]).broken(), []);
        assert_eq!(given().seen(20, &[("a", Plain)], &[]).broken(), [ALL_OR_NONE]);
        assert_eq!(given().troubled((15, 16), removed(false)).seen(20, &[("a", Plain)], &[]).broken(), []);
    }

    /// `w` waits for two locks; so many pass it on the first, the second, and both.
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
    fn who_waits_for_several_is_passed_by_four_at_most() {
        assert_eq!(passed((4, 0, 0)).broken(), []);
        assert_eq!(passed((5, 0, 0)).broken(), [PASSED_SELDOM]);
        assert_eq!(passed((2, 2, 0)).broken(), []);
        assert_eq!(passed((3, 2, 0)).broken(), [PASSED_SELDOM], "on all together");
        assert_eq!(passed((2, 0, 2)).broken(), [], "each once");
        assert_eq!(passed((2, 1, 2)).broken(), [PASSED_SELDOM]);
    }

    #[test]
    fn who_waits_for_all_has_none() {
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
