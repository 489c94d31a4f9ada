//! Stored answers: only a holder stores one, ONCE returns it as long as it is kept, and it ends the waits of all callers.
//! `exclusion` checks that at most one caller leads at a time: a lead is a hold.

use super::ROUGHNESS;
use super::by_lock::{LockHistory, Seen};
use super::certain::{Certain, Surroundings, covers};
use super::verdict::{
    ANSWERS_ARE_KEPT, ANSWERS_ARE_OF_HOLDERS, ANSWERS_ARE_THE_LATEST, ANSWERS_END_WAITS, FORGOTTEN_ANSWER, Promise,
    Verdict,
};
use crate::history::{Answer, Moment, Operation, Request, Side};
use std::collections::HashMap;
use std::time::Duration;

/// How long callers may still wait after an answer was stored, minus the time in which the server could not serve.
const LATE: Duration = Duration::from_millis(500);

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let answers = Answers::of(lock);
    let has_onces = lock.steps.iter().any(|step| step.is_by_once());
    if !has_onces && answers.all.is_empty() {
        return;
    }
    are_of_holders(lock, &answers, verdict);
    are_the_latest(lock, &answers, verdict);
    are_kept(lock, &answers, verdict);
    end_waits(lock, &answers, verdict);
}

/// One ANSWER.
struct Left<'a> {
    step: &'a Operation,
    value: &'a str,
    keep: Duration,
}

impl<'a> Left<'a> {
    fn of(step: &'a Operation) -> Option<Self> {
        let Request::Answer { value, keep_ms } = &step.call.request else { return None };
        Some(Self { step, value, keep: Duration::from_millis(*keep_ms) })
    }

    fn called(&self) -> Moment {
        self.step.call.at
    }

    fn is_stored(&self) -> bool {
        self.step.known_answer() == Some(&Answer::Stored(true))
    }

    /// If the server stored it, it does not expire before this.
    fn kept_until(&self) -> Moment {
        self.called() + self.keep - ROUGHNESS
    }

    /// When it has certainly expired.
    fn gone_by(&self) -> Moment {
        self.step.done() + self.keep + ROUGHNESS
    }
}

struct Answers<'a> {
    /// In order of their calls, without those that certainly stored nothing.
    all: Vec<Left<'a>>,
    by_value: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Answers<'a> {
    fn of(lock: &LockHistory<'a>) -> Self {
        let is_possible = |left: &Left| !left.step.did_nothing();
        let all: Vec<_> = lock.steps.iter().filter_map(|step| Left::of(step)).filter(is_possible).collect();
        let mut by_value: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, left) in all.iter().enumerate() {
            by_value.entry(left.value).or_default().push(place);
        }
        Self { all, by_value }
    }

    /// The answers that were certainly stored.
    fn stored(&self) -> impl Iterator<Item = &Left<'a>> {
        self.all.iter().filter(|left| left.is_stored())
    }

    /// All attempts to store this value.
    fn of_value(&self, value: &str) -> Vec<&Left<'a>> {
        self.by_value.get(value).into_iter().flatten().map(|place| &self.all[*place]).collect()
    }

    /// Until when an answer is certainly stored: this one, or any that may have replaced it.
    fn kept_until(&self, left: &Left, by: Moment) -> Moment {
        let later = self.all.iter().filter(|it| it.step.done() > left.called() && it.called() < by);
        later.map(Left::kept_until).min().unwrap_or_default().min(left.kept_until())
    }
}

/// Each request that got an answer, with the value.
fn got<'a>(lock: &LockHistory<'a>) -> impl Iterator<Item = (&'a Operation, &'a str)> {
    lock.steps.iter().filter_map(|step| match step.known_answer() {
        Some(Answer::Got { value }) => Some((*step, value.as_str())),
        _ => None,
    })
}

fn are_of_holders(lock: &LockHistory, answers: &Answers, verdict: &mut Verdict) {
    let mut report = |step: &Operation, what| {
        verdict.violations.push(lock.violation(ANSWERS_ARE_OF_HOLDERS, step.done(), what, &[step]));
    };
    for (step, value) in got(lock) {
        if !answers.of_value(value).iter().any(|left| left.called() < step.done()) {
            report(step, format!("{} got {value}, which no holder has stored", step.holder()));
        }
    }
    let pieces = Surroundings::of(lock).certain();
    for left in answers.stored() {
        if let Some(why) = lacks_the_lock(lock, left, &pieces) {
            report(left.step, format!("{} stored an answer, {why}", left.step.holder()));
        }
    }
}

fn lacks_the_lock(lock: &LockHistory, left: &Left, pieces: &[Certain]) -> Option<String> {
    let (holder, called, answered) = (left.step.holder(), left.called(), left.step.done());
    let has_all_the_time = |it: &&Certain| {
        it.side.is_exclusive() && it.from <= called && answered <= it.until_for_others && it.step.holder() != holder
    };
    if let Some(other) = pieces.iter().find(has_all_the_time) {
        return Some(format!("although {} had the lock", other.step.holder()));
    }
    let own: Vec<_> = lock.steps.iter().filter(|it| it.holder() == holder && !it.did_nothing()).collect();
    let leases = || own.iter().filter_map(|it| Some((it, Duration::from_millis(it.call.request.lease_ms()?))));
    let end = leases().map(|(it, lease)| it.done() + lease + ROUGHNESS).max();
    let Some(end) = end else { return Some("and never had the lock".to_owned()) };
    let began = own.iter().map(|it| it.call.at).min().unwrap_or_default();
    let troubles = lock.troubles;
    let is_excused = troubles.failovers.touches(began, answered)
        || troubles.clocks_apart.touches(began, answered)
        || troubles.clock_steps.touches(began, answered)
        || lock.is_removed(began, answered);
    (end < called && !is_excused).then(|| format!("{:?} after the end of its lease", called.since(end)))
}

fn are_the_latest(lock: &LockHistory, answers: &Answers, verdict: &mut Verdict) {
    for (step, value) in got(lock) {
        let own = answers.of_value(value);
        let (Some(began), Some(done), Some(gone)) = (
            own.iter().map(|it| it.called()).min(),
            own.iter().map(|it| it.step.done()).max(),
            own.iter().map(|it| it.gone_by()).max(),
        ) else {
            continue;
        };
        let asked = step.call.at;
        let newer = answers.stored().find(|it| it.called() > done && it.step.done() < asked);
        let why = if gone < asked {
            Some(format!("{:?} after its end", asked.since(gone)))
        } else {
            newer.map(|it| format!("although {} was stored before it asked", it.value))
        };
        let Some(why) = why.filter(|_| !is_excused(lock, began, step.done())) else { continue };
        let what = format!("{} got {value} {why}", step.holder());
        let evidence: Vec<&Operation> = own.iter().chain(&newer).map(|it| it.step).chain([step]).collect();
        verdict.violations.push(lock.violation(ANSWERS_ARE_THE_LATEST, step.done(), what, &evidence));
    }
}

/// Whether a trouble may have removed the answer or brought back an older one.
fn is_excused(lock: &LockHistory, after: Moment, before: Moment) -> bool {
    lock.troubles.failovers.touches(after, before) || lock.troubles.takes_answer(lock.name, after, before)
}

/// While an answer is stored, ONCE returns it.
fn are_kept(lock: &LockHistory, answers: &Answers, verdict: &mut Verdict) {
    let around = Surroundings::of(lock);
    let holders: HashMap<&str, &Vec<&Operation>> =
        lock.holders.iter().map(|steps| (steps[0].holder(), steps)).collect();
    let gets_none = |step: &&&Operation| {
        step.is_by_once() && matches!(step.known_answer(), Some(Answer::Granted { .. } | Answer::Refused { .. }))
    };
    let mut without: Vec<&Operation> = lock.steps.iter().filter(gets_none).copied().collect();
    without.sort_by_key(|step| step.done());
    for left in answers.stored() {
        let from = without.partition_point(|step| step.done() <= left.called());
        let until = without.partition_point(|step| step.done() < left.kept_until());
        let pieces = std::cell::OnceCell::new();
        let held_since = |moment| {
            let steps = holders.get(left.step.holder()).map_or(&[][..], |steps| steps);
            let pieces = pieces.get_or_init(|| around.certain_without(steps, left.step));
            covers(pieces, Side::Plain, (moment, left.called()), |it| it.until)
        };
        // If the leader held the lock from this caller's request until its own answer, the caller was granted the lock
        // after the answer.
        let is_wrong = |step: &&&Operation| {
            let is_behind =
                || step.granted().is_some() && step.holder() != left.step.holder() && held_since(step.call.at);
            (step.call.at >= left.step.done() || is_behind())
                && step.done() < answers.kept_until(left, step.done())
                && !lock.troubles.takes_answer(lock.name, left.called(), step.done())
        };
        let wrong = without[from..until.max(from)].iter().find(is_wrong);
        let failovers = &lock.troubles.failovers;
        if failovers.touches(left.called(), left.kept_until()) {
            verdict.count(FORGOTTEN_ANSWER, u64::from(wrong.is_some()), 1);
        }
        if let Some(step) = wrong.filter(|step| !failovers.touches(left.called(), step.done())) {
            let does = if step.granted().is_some() { "leads" } else { "got the reply that another caller leads" };
            let early = left.kept_until().since(step.done());
            let what = format!("{} {does}, {early:?} before the end of {}", step.holder(), left.value);
            let evidence = [left.step, step];
            verdict.violations.push(lock.violation(ANSWERS_ARE_KEPT, step.done(), what, &evidence));
        }
    }
}

/// An answer ends the waits of all callers, at any place in the queue.
fn end_waits(lock: &LockHistory, answers: &Answers, verdict: &mut Verdict) {
    const PROMISE: Promise = ANSWERS_END_WAITS;
    let callers = lock.each(waits_once);
    lock.report_once(PROMISE, verdict, |seen| {
        let step = *seen.waits.filter(|by| by.is_attended()).and_then(|_| callers.get(seen.holder))?;
        let has_it = matches!(step.known_answer(), Some(Answer::Got { .. } | Answer::Answered));
        if has_it && step.done() < seen.sample.asked {
            return Some(("although it has its answer".to_owned(), step));
        }
        let left = answers.stored().find(|left| is_overdue(lock, answers, left, step, seen))?;
        Some((format!("although {} was stored long ago", left.value), step))
    });
}

fn is_overdue(lock: &LockHistory, answers: &Answers, left: &Left, step: &Operation, seen: &Seen) -> bool {
    let (since, asked) = (left.step.done().max(step.call.at), seen.sample.asked);
    since + LATE < asked
        && asked < left.kept_until()
        && asked < answers.kept_until(left, asked)
        && lock.quiet(since, asked) > LATE
        && !is_excused(lock, left.called(), asked)
}

/// The only wait of a holder, if it is by ONCE.
fn waits_once<'a>(steps: &[&'a Operation]) -> Option<&'a Operation> {
    let mut waits = steps.iter().filter(|step| step.call.request.waits());
    waits.next().filter(|step| step.is_by_once() && waits.next().is_none()).copied()
}

#[cfg(test)]
mod tests {
    use super::{ANSWERS_ARE_KEPT, ANSWERS_ARE_OF_HOLDERS, ANSWERS_ARE_THE_LATEST, ANSWERS_END_WAITS};
    use crate::checker::verdict::{HOLDS_LAST, NO_GRANT_WITHOUT_WAITER, ONE_HOLDER};
    use crate::checker::written::{
        Written, answer, clock, failover, give, got, granted, once, refused, removed, restart, take, unknown,
    };
    use crate::history::Side::Plain;
    use crate::history::{Answer, Reach};

    /// `a` leads from 0 on, and at 50 stores an answer that is kept until 1 050.
    fn led() -> Written {
        leads().did("a", answer("v", 1_000), (50, 52), Answer::Stored(true))
    }

    fn leads() -> Written {
        Written::default().did("a", once(500, None), (0, 1), granted())
    }

    #[test]
    fn callers_get_the_answer_for_as_long_as_it_is_kept() {
        let waited = led().did("b", once(500, Some(900)), (10, 60), got("v"));
        let later = waited.did("c", once(500, None), (1_040, 1_041), got("v"));
        assert_eq!(later.did("d", once(500, None), (1_060, 1_061), granted()).broken(), []);
    }

    #[test]
    fn an_answer_is_of_a_holder() {
        let gets = |history: Written| history.did("b", once(500, None), (100, 101), got("v")).broken();
        assert_eq!(gets(Written::default()), [ANSWERS_ARE_OF_HOLDERS]);
        assert_eq!(gets(leads()), [ANSWERS_ARE_OF_HOLDERS]);
        assert_eq!(gets(leads().did("a", answer("v", 1_000), (50, 52), unknown())), []);
        let late = |answered| leads().did("a", answer("v", 1_000), (600, 602), Answer::Stored(answered));
        let got_late = |answered| late(answered).did("b", once(500, None), (700, 701), got("v")).broken();
        assert_eq!((got_late(false), got_late(true)), (vec![ANSWERS_ARE_OF_HOLDERS], vec![ANSWERS_ARE_OF_HOLDERS]));
        assert_eq!(late(true).troubled((100, 101), clock(-500)).broken(), []);
        assert_eq!(late(true).did("a", once(500, None), (200, 201), granted()).broken(), [], "it leads once more");
        // Repeated in doubt: the first attempt may have stored it.
        let twice = leads().did("a", answer("v", 1_000), (50, 52), unknown());
        assert_eq!(gets(twice.did("a", answer("v", 1_000), (60, 62), Answer::Stored(false))), []);
    }

    #[test]
    fn only_a_holder_stores_an_answer() {
        let vain = |stored| leads().did("b", answer("w", 10), (50, 52), Answer::Stored(stored)).broken();
        assert_eq!((vain(false), vain(true)), (vec![], vec![ANSWERS_ARE_OF_HOLDERS]));
        let refused = Written::default().did("b", once(500, None), (0, 1), refused(5));
        let stored = refused.did("b", answer("w", 10), (50, 52), Answer::Stored(true));
        assert_eq!(stored.broken(), [ANSWERS_ARE_OF_HOLDERS]);
        // Its request may have been granted.
        let doubtful = Written::default().did("b", once(500, None), (0, 1), unknown());
        assert_eq!(doubtful.did("b", answer("w", 10), (50, 52), Answer::Stored(true)).broken(), []);
    }

    #[test]
    fn no_caller_leads_while_an_answer_is_kept() {
        let leads = |history: Written, at| history.did("b", once(500, None), (at, at + 1), granted());
        assert_eq!(leads(led(), 60).broken(), [ANSWERS_ARE_KEPT]);
        assert_eq!(leads(led(), 1_047).broken(), []);
        let refused_at = |at| led().did("b", once(500, None), (at, at + 1), refused(5)).broken();
        assert_eq!((refused_at(60), refused_at(45)), (vec![ANSWERS_ARE_KEPT], vec![]));
        assert_eq!(led().did("b", take(500), (60, 61), granted()).broken(), [], "not by ONCE");
        // `a` held the lock from before `b` asked until the answer, so `b` was granted it later.
        let waits = |asked| led().did("b", once(500, Some(900)), (asked, 60), granted()).broken();
        assert_eq!(waits(10), [ANSWERS_ARE_KEPT]);
    }

    #[test]
    fn a_grant_from_before_the_lead_may_arrive_late() {
        let late_answer = Written::default().did("b", once(20, Some(900)), (0, 60), granted());
        let led = late_answer.did("a", once(500, None), (30, 31), granted());
        assert_eq!(led.did("a", answer("v", 1_000), (50, 52), Answer::Stored(true)).broken(), []);
    }

    #[test]
    fn a_later_answer_may_be_kept_for_less() {
        let again = led().did("b", take(500), (60, 61), granted());
        let replaced = again.did("b", answer("w", 20), (70, 72), Answer::Stored(true));
        assert_eq!(replaced.did("c", once(500, None), (100, 101), granted()).broken(), []);
        let unknown = led().did("b", answer("w", 20), (70, 72), unknown());
        assert_eq!(unknown.did("c", once(500, None), (100, 101), granted()).broken(), []);
    }

    #[test]
    fn troubles_may_remove_an_answer() {
        let leads = |reach| led().did("b", once(500, None), (80, 81), granted()).troubled((60, 62), reach);
        assert_eq!(leads(removed(true)).broken(), []);
        assert_eq!(leads(Reach::StoredAnswer { lock: "l".to_owned() }).broken(), []);
        assert_eq!(leads(clock(2_000)).broken(), []);
        assert_eq!(leads(failover()).broken(), []);
        assert_eq!(leads(failover()).counted("forgot an answer"), Some((1, 1)));
        assert_eq!(led().troubled((60, 62), failover()).counted("forgot an answer"), Some((0, 1)));
        for nothing in [removed(false), restart(), Reach::StoredAnswer { lock: "m".to_owned() }] {
            assert_eq!(leads(nothing).broken(), [ANSWERS_ARE_KEPT]);
        }
    }

    #[test]
    fn callers_get_the_latest_answer_until_it_expires() {
        let late = |at| led().did("b", once(500, None), (at, at + 1), got("v")).broken();
        assert_eq!((late(1_054), late(1_060)), (vec![], vec![ANSWERS_ARE_THE_LATEST]));
        let newer = || {
            let again = led().did("b", take(500), (60, 61), granted());
            again.did("b", answer("w", 1_000), (70, 72), Answer::Stored(true))
        };
        let gets = |asked, value| newer().did("c", once(500, Some(900)), (asked, 90), got(value)).broken();
        assert_eq!((gets(80, "w"), gets(80, "v"), gets(71, "v")), (vec![], vec![ANSWERS_ARE_THE_LATEST], vec![]));
        let swapped = newer().did("c", once(500, None), (80, 81), got("v")).troubled((75, 76), removed(true));
        assert_eq!(swapped.broken(), []);
    }

    #[test]
    fn a_caller_with_its_answer_waits_no_more() {
        let waited = || led().did("b", once(500, Some(5_000)), (10, 60), got("v"));
        assert_eq!(waited().seen(59, &[], &[("b", Plain, 10)]).broken(), []);
        assert_eq!(waited().seen(70, &[], &[("b", Plain, 10)]).broken(), [ANSWERS_END_WAITS]);
        assert_eq!(waited().seen(70, &[("b", Plain)], &[]).broken(), [NO_GRANT_WITHOUT_WAITER]);
    }

    #[test]
    fn a_waiting_caller_gets_the_answer_soon() {
        let waiting = |by| led().called("b", by, 10);
        let seen = |history: Written, at| history.seen(at, &[("x", Plain)], &[("b", Plain, 10)]);
        let by_once = || waiting(once(500, Some(5_000)));
        assert_eq!(seen(by_once(), 500).broken(), []);
        assert_eq!(seen(by_once(), 600).broken(), [ANSWERS_END_WAITS]);
        assert_eq!(seen(by_once(), 1_100).broken(), [], "it expired before");
        assert_eq!(seen(waiting(crate::checker::written::wait(500, 5_000)), 600).broken(), []);
        let paused = Reach::NoWrites { server: "a".to_owned() };
        assert_eq!(seen(by_once(), 600).troubled((100, 400), paused).broken(), []);
    }

    #[test]
    fn an_answer_ends_the_hold_of_a_lead() {
        assert_eq!(led().did("b", take(500), (55, 56), granted()).broken(), []);
        assert_eq!(leads().did("b", once(500, None), (45, 46), granted()).broken(), [ONE_HOLDER]);
        let held = led().did("a", give(Plain), (60, 61), Answer::Released(None));
        assert_eq!(held.broken(), []);
        let lost = leads().did("a", answer("v", 1_000), (50, 52), Answer::Stored(false));
        assert_eq!(lost.broken(), [HOLDS_LAST]);
    }
}
