//! Two who hold what only one may hold.

use super::by_lock::LockHistory;
use super::certain::Certain;
use super::verdict::{Promise, Violation};
use crate::history::Moment;
use std::collections::HashSet;

/// Two pieces of evidence that contradict each other, the one that began earlier first.
pub type Overlap = (usize, usize);

pub fn check(lock: &LockHistory, pieces: &[Certain], violations: &mut Vec<Violation>) {
    for (earlier, later) in overlaps(pieces, |piece| piece.until) {
        violations.push(violation(lock, &pieces[earlier], &pieces[later]));
    }
}

/// Of different holders, at least one of them exclusive; each two holders once. `end` is what counts as the end of a
/// piece.
pub fn overlaps(pieces: &[Certain], end: impl Fn(&Certain) -> Moment) -> Vec<Overlap> {
    let mut order: Vec<usize> = (0..pieces.len()).filter(|place| pieces[*place].from < end(&pieces[*place])).collect();
    order.sort_by_key(|place| (pieces[*place].from, *place));
    let mut exclusive = Longest::default();
    let mut reading = Longest::default();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for place in order {
        let piece = &pieces[place];
        let is_exclusive = piece.side.is_exclusive();
        let rivals = [exclusive.besides(piece.who), reading.besides(piece.who).filter(|_| is_exclusive)];
        for (until, rival) in rivals.into_iter().flatten() {
            if until > piece.from && seen.insert((pieces[rival].who, piece.who)) {
                found.push((rival, place));
            }
        }
        let kind = if is_exclusive { &mut exclusive } else { &mut reading };
        kind.add(piece.who, end(piece), place);
    }
    found
}

/// What lasts longest of all that has begun, and what lasts longest of all other holders.
#[derive(Default)]
struct Longest<'a> {
    first: Option<(&'a str, Moment, usize)>,
    second: Option<(&'a str, Moment, usize)>,
}

impl<'a> Longest<'a> {
    fn besides(&self, who: &str) -> Option<(Moment, usize)> {
        let other = self.first.filter(|first| first.0 != who).or(self.second);
        other.map(|(_, until, place)| (until, place))
    }

    fn add(&mut self, who: &'a str, until: Moment, place: usize) {
        let new = Some((who, until, place));
        match self.first {
            Some(first) if first.0 == who => {
                if until > first.1 {
                    self.first = new;
                }
            }
            Some(first) if until <= first.1 => {
                if self.second.is_none_or(|second| until > second.1) {
                    self.second = new;
                }
            }
            first => {
                self.second = first;
                self.first = new;
            }
        }
    }
}

fn violation(lock: &LockHistory, earlier: &Certain, later: &Certain) -> Violation {
    let first = lock.steps[earlier.step].named();
    let second = lock.steps[later.step].named();
    Violation {
        promise: Promise::OneHolder,
        lock: lock.name.to_owned(),
        at: later.from,
        what: format!(
            "two holders: {} had {} by call {} of {} for {:.1} ms more when {} was told by call {} of {} that \
             it has {}",
            earlier.who,
            earlier.side.word(),
            first.1,
            first.0,
            earlier.until.since(later.from).as_secs_f64() * 1e3,
            later.who,
            second.1,
            second.0,
            later.side.word(),
        ),
        evidence: vec![first, second],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::OneHolder;
    use crate::checker::written::{Written, acquire, clock, give, granted, removed, renew, take, wait};
    use crate::history::{Answer, Request, Side};

    fn first() -> Written {
        Written::default().did("a", take(100), (0, 1), granted())
    }

    #[test]
    fn one_after_the_other_is_right() {
        let next = |at| take_at(first(), at);
        assert_eq!(next(99).broken(), []);
        let given = first().did("a", give(Side::Plain), (10, 12), Answer::Released(Some(1)));
        assert_eq!(take_at(given, 10).broken(), []);
        let unknown = first().called("a", give(Side::Plain), 10);
        assert_eq!(take_at(unknown, 10).broken(), []);
    }

    fn take_at(history: Written, at: u64) -> Written {
        history.did("b", take(100), (at, at + 1), granted())
    }

    #[test]
    fn two_at_once_are_wrong() {
        assert!(take_at(first(), 50).broken().contains(&OneHolder));
    }

    #[test]
    fn a_stranger_ends_nothing() {
        let released = first().did("c", give(Side::Plain), (10, 12), Answer::Released(None));
        assert!(take_at(released, 50).broken().contains(&OneHolder));
    }

    #[test]
    fn what_was_renewed_goes_on() {
        let renewed = first().did("a", renew(100), (80, 81), Answer::Renewed(true));
        assert!(take_at(renewed, 120).broken().contains(&OneHolder));
    }

    #[test]
    fn a_lease_that_was_made_shorter_ends_sooner() {
        let shortened = || first().did("a", renew(20), (10, 11), Answer::Renewed(true));
        assert_eq!(take_at(shortened(), 30).broken(), []);
        assert!(take_at(shortened(), 20).broken().contains(&OneHolder));
        // Nobody knows whether this one came true, nor when.
        assert_eq!(take_at(first().called("a", renew(20), 10), 30).broken(), []);
    }

    #[test]
    fn one_hold_given_back_of_two_leaves_one() {
        let again = first().did("a", take(100), (2, 3), granted());
        let given = again.did("a", give(Side::Plain), (10, 11), Answer::Released(Some(0)));
        assert!(take_at(given, 20).broken().contains(&OneHolder));
    }

    #[test]
    fn readers_are_many_and_writers_alone() {
        let read = |who: &str| Written::default().did(who, acquire(Side::Read, 100), (0, 1), granted());
        let beside = |side| read("a").did("b", acquire(side, 100), (10, 11), granted());
        assert_eq!(beside(Side::Read).broken(), []);
        assert_eq!(beside(Side::Write).broken(), [OneHolder]);
        let written = Written::default().did("a", acquire(Side::Write, 100), (0, 1), granted());
        assert_eq!(written.did("b", acquire(Side::Read, 100), (10, 11), granted()).broken(), [OneHolder]);
        let own = Written::default().did("a", acquire(Side::Write, 100), (0, 1), granted());
        assert_eq!(own.did("a", acquire(Side::Read, 100), (2, 3), granted()).broken(), []);
    }

    #[test]
    fn of_nested_reads_the_last_goes_first() {
        let reads = || {
            let first = Written::default().did("a", acquire(Side::Read, 100), (0, 1), granted());
            let both = first.did("a", acquire(Side::Read, 1_000), (2, 3), granted());
            both.did("a", give(Side::Read), (4, 5), Answer::Released(Some(0)))
        };
        let write = |at| reads().did("b", acquire(Side::Write, 10), (at, at + 1), granted());
        assert_eq!(write(50).broken(), [OneHolder]);
        assert_eq!(write(100).broken(), []);
    }

    #[test]
    fn a_wait_is_granted_no_one_knows_when_but_not_before_it_began() {
        let waited = |lease| Written::default().did("a", wait(lease, 0), (0, 90), granted());
        assert_eq!(waited(80).did("b", take(10), (95, 96), granted()).broken(), []);
        assert!(waited(110).did("b", take(10), (95, 96), granted()).broken().contains(&OneHolder));
    }

    #[test]
    fn guards_hold_what_they_vouch_for() {
        let guard = Request::Guard { side: Side::Plain, lease_ms: 100, fenced: false, replicas: 0, majority: false };
        let guarded = || Written::default().did("a", guard.clone(), (0, 1), granted()).vouched("a", 1, 90);
        assert!(take_at(guarded().vouched("a", 50, 140), 100).broken().contains(&OneHolder));
        assert_eq!(take_at(guarded(), 100).broken(), []);
        assert_eq!(take_at(guarded().ended("a", 40), 50).broken(), []);
    }

    #[test]
    fn troubles_end_what_was_certain_and_nothing_else() {
        assert_eq!(take_at(first().troubled((40, 60), removed(false)), 45).broken(), []);
        assert!(take_at(first().troubled((40, 60), removed(false)), 30).broken().contains(&OneHolder));
        assert_eq!(take_at(first().troubled((40, 41), clock(30)), 72).broken(), []);
        assert!(take_at(first().troubled((40, 41), clock(30)), 60).broken().contains(&OneHolder));
        assert!(take_at(first().troubled((40, 41), clock(-30)), 72).broken().contains(&OneHolder));
    }
}
