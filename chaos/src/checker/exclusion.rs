//! Two holders of a lock that only one may hold. Failovers that made servers forget a lock break no promise: they are
//! counted.

use super::by_lock::LockHistory;
use super::certain::{Certain, Surroundings};
use super::verdict::{FORGOTTEN, ONE_HOLDER, Verdict};
use crate::history::Moment;
use std::collections::{BTreeMap, HashSet};

/// Two spans that contradict each other, the earlier first.
type Overlap = (usize, usize);

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let pieces = Surroundings::of(lock).certain();
    verdict.figures.add("holds certain", pieces.iter().filter(|piece| piece.from < piece.until).count() as u64);
    let broken = overlaps(&pieces, |piece| piece.until_for_others);
    for (earlier, later) in &broken {
        let (earlier, later) = (&pieces[*earlier], &pieces[*later]);
        let what = format!(
            "two holders: {} had the lock ({:?}) for {:?} more when {} was granted it ({:?})",
            earlier.step.holder(),
            earlier.side,
            earlier.until_for_others.since(later.from),
            later.step.holder(),
            later.side,
        );
        let evidence = [earlier.step, later.step];
        verdict.violations.push(lock.violation(ONE_HOLDER, later.from, what, &evidence));
    }
    if !lock.troubles.failovers.is_empty() {
        count_forgotten(lock, &pieces, &broken, verdict);
    }
}

fn count_forgotten(lock: &LockHistory, pieces: &[Certain], broken: &[Overlap], verdict: &mut Verdict) {
    let holder = |place: usize| pieces[place].step.holder();
    let broken: HashSet<(&str, &str)> =
        broken.iter().map(|(first, second)| (holder(*first), holder(*second))).collect();
    let excused = overlaps(pieces, |piece| piece.until_without_failovers);
    let excused = excused.into_iter().map(|(first, second)| (holder(first), holder(second)));
    let lost: HashSet<&str> = excused.filter(|pair| !broken.contains(pair)).map(|(first, _)| first).collect();
    let spans = |piece: &&Certain| lock.troubles.failovers.touches(piece.basis, piece.until_without_failovers);
    let at_risk: HashSet<&str> = pieces.iter().filter(spans).map(|piece| piece.step.holder()).collect();
    for holder in at_risk {
        verdict.count(FORGOTTEN, lost.contains(holder).into(), 1);
    }
}

/// Overlaps of different holders, at least one of them exclusive; one for each pair of holders. `end` is the end of a span.
fn overlaps(pieces: &[Certain], end: impl Fn(&Certain) -> Moment) -> Vec<Overlap> {
    let mut order: Vec<usize> = (0..pieces.len()).filter(|place| pieces[*place].from < end(&pieces[*place])).collect();
    order.sort_by_key(|place| (pieces[*place].from, *place));
    // By holder and by whether it is exclusive: the span that lasts longest.
    let mut open: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for place in order {
        let piece = &pieces[place];
        let (holder, is_exclusive) = (piece.step.holder(), piece.side.is_exclusive());
        open.retain(|_, rival| end(&pieces[*rival]) > piece.from);
        for ((other, has_it_alone), rival) in &open {
            if *other != holder && (is_exclusive || *has_it_alone) && seen.insert((*other, holder)) {
                found.push((*rival, place));
            }
        }
        let longest = open.entry((holder, is_exclusive)).or_insert(place);
        if end(piece) > end(&pieces[*longest]) {
            *longest = place;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::ONE_HOLDER;
    use crate::checker::written::{Written, acquire, clock, covered, failover, give, granted, guard, removed, renew};
    use crate::checker::written::{take, wait};
    use crate::history::{Answer, Side};

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
    fn a_stranger_ends_nothing() {
        let released = first().did("c", give(Side::Plain), (10, 12), Answer::Released(None));
        assert!(take_at(released, 50).breaks(ONE_HOLDER));
    }

    #[test]
    fn what_was_renewed_goes_on() {
        let renewed = first().did("a", renew(100), (80, 81), Answer::Renewed(true));
        assert!(take_at(renewed, 120).breaks(ONE_HOLDER));
    }

    #[test]
    fn a_lease_that_was_made_shorter_ends_sooner() {
        let shortened = || first().did("a", renew(20), (10, 11), Answer::Renewed(true));
        assert_eq!(take_at(shortened(), 30).broken(), []);
        assert!(take_at(shortened(), 20).breaks(ONE_HOLDER));
        // It is not known whether and when this call took effect.
        assert_eq!(take_at(first().called("a", renew(20), 10), 30).broken(), []);
    }

    #[test]
    fn one_release_of_two_holds_leaves_one() {
        let again = first().did("a", take(100), (2, 3), granted());
        let given = again.did("a", give(Side::Plain), (10, 11), Answer::Released(Some(0)));
        assert!(take_at(given, 20).breaks(ONE_HOLDER));
    }

    #[test]
    fn readers_are_many_and_writers_alone() {
        let read = |holder: &str| Written::default().did(holder, acquire(Side::Read, 100), (0, 1), granted());
        let with_reader = |side| read("a").did("b", acquire(side, 100), (10, 11), granted());
        assert_eq!(with_reader(Side::Read).broken(), []);
        assert_eq!(with_reader(Side::Write).broken(), [ONE_HOLDER]);
        let written = Written::default().did("a", acquire(Side::Write, 100), (0, 1), granted());
        assert_eq!(written.did("b", acquire(Side::Read, 100), (10, 11), granted()).broken(), [ONE_HOLDER]);
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
        assert_eq!(write(50).broken(), [ONE_HOLDER]);
        assert_eq!(write(100).broken(), []);
    }

    #[test]
    fn a_wait_is_granted_no_one_knows_when_but_not_before_it_began() {
        let waited = |lease| Written::default().did("a", wait(lease, 0), (0, 90), granted());
        assert_eq!(waited(80).did("b", take(10), (95, 96), granted()).broken(), []);
        assert!(waited(110).did("b", take(10), (95, 96), granted()).breaks(ONE_HOLDER));
    }

    #[test]
    fn guards_hold_what_they_guarantee() {
        let guarded = || Written::default().did("a", guard(100), (0, 1), granted()).vouched("a", 1, 90);
        assert!(take_at(guarded().vouched("a", 50, 140), 100).breaks(ONE_HOLDER));
        assert_eq!(take_at(guarded(), 100).broken(), []);
        assert_eq!(take_at(guarded().ended("a", 40), 50).broken(), []);
    }

    #[test]
    fn troubles_end_what_was_certain_and_nothing_else() {
        assert_eq!(take_at(first().troubled((40, 60), removed(false)), 45).broken(), []);
        assert!(take_at(first().troubled((40, 60), removed(false)), 30).breaks(ONE_HOLDER));
        assert_eq!(take_at(first().troubled((40, 41), clock(30)), 72).broken(), []);
        assert!(take_at(first().troubled((40, 41), clock(30)), 60).breaks(ONE_HOLDER));
        assert!(take_at(first().troubled((40, 41), clock(-30)), 72).breaks(ONE_HOLDER));
    }

    #[test]
    fn what_only_a_failover_explains_is_counted() {
        let history = || take_at(first(), 50).troubled((40, 42), failover());
        assert_eq!(history().broken(), []);
        assert_eq!(history().counted("failover"), Some((1, 1)));
        assert_eq!(first().troubled((40, 42), failover()).counted("failover"), Some((0, 1)));
        assert_eq!(take_at(first(), 50).troubled((60, 62), failover()).broken(), [ONE_HOLDER]);
    }

    #[test]
    fn a_failover_that_is_covered_explains_no_second_holder() {
        let history = || take_at(first(), 50).troubled((40, 42), covered());
        assert_eq!(history().broken(), [ONE_HOLDER]);
        assert_eq!(history().counted("failover"), Some((0, 1)));
        let guarded = Written::default().did("a", guard(100), (0, 1), granted()).vouched("a", 1, 90);
        assert_eq!(take_at(guarded.troubled((40, 42), covered()), 50).broken(), [ONE_HOLDER]);
        // One more failover, not covered, explains it.
        assert_eq!(history().troubled((43, 44), failover()).broken(), []);
        // If the new master does not know of a hold, no other client has it.
        let denied = first().did("a", renew(100), (50, 51), Answer::Renewed(false)).troubled((40, 42), covered());
        assert_eq!(denied.broken(), []);
    }
}
