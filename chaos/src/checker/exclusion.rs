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

/// Of different holders, at least one of them exclusive; each two holders once. `end` is what counts as the end of a piece.
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
            "two holders: {} had {} by call {} of {} for {:.1} ms more when {} was told by call {} of {} that it has {}",
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
