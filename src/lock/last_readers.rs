//! The read holds of one lock that end last, out of many.
//!
//! Redisson's layout keeps the lease of each read hold in a key of its own, and nothing there tells which of them is the
//! longest: whoever leaves would have to look at them all. Once that was done, it is enough to follow what changes. Not
//! all holds are kept, only the latest few, so it can come to an end, and then all have to be looked at again.

use super::Expiry;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadHold {
    pub holder: Box<[u8]>,
    pub index: i64,
    pub end: Expiry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastReaders {
    /// The last one last.
    holds: Vec<ReadHold>,
    /// No hold that is not among them ends after this.
    others_end: Option<Expiry>,
}

impl LastReaders {
    /// How many are kept: more leave one after another only if nobody comes or renews meanwhile.
    pub const KEPT: usize = 32;

    /// Out of all holds that there are.
    #[must_use]
    pub fn of(mut all: Vec<ReadHold>) -> Self {
        all.sort_by_key(|hold| hold.end);
        let rest = all.len().saturating_sub(Self::KEPT);
        let holds = all.split_off(rest);
        Self { holds, others_end: all.last().map(|hold| hold.end) }
    }

    /// This hold is new, or has a new lease.
    pub fn set(&mut self, hold: ReadHold) {
        self.drop_holds(&hold.holder, hold.index..=hold.index);
        if self.others_end.is_some_and(|others| hold.end < others) {
            return;
        }
        let place = self.holds.partition_point(|other| other.end <= hold.end);
        self.holds.insert(place, hold);
        if self.holds.len() > Self::KEPT {
            self.others_end = Some(self.holds.remove(0).end);
        }
    }

    /// These holds are no more.
    pub fn drop_holds(&mut self, holder: &[u8], indexes: std::ops::RangeInclusive<i64>) {
        self.holds.retain(|hold| !(indexes.contains(&hold.index) && *hold.holder == *holder));
    }

    /// The last of all holds but those of this holder above the index `own`. None if that is not known.
    #[must_use]
    pub fn last_beside(&self, holder: &[u8], own: i64) -> Option<&ReadHold> {
        self.holds.iter().rev().find(|hold| hold.index <= own || *hold.holder != *holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const HOLDERS: u8 = 60;

    #[derive(Clone, Debug)]
    enum Step {
        Set { holder: u8, index: i64, end: i64 },
        Drop { holder: u8, first: i64 },
        Ask { holder: u8, own: i64 },
        LookAtAll,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..HOLDERS, 1..3_i64, 0..1_000_i64).prop_map(|(holder, index, end)| Step::Set { holder, index, end }),
            4 => (0..HOLDERS, 1..3_i64).prop_map(|(holder, first)| Step::Drop { holder, first }),
            4 => (0..HOLDERS, 0..3_i64).prop_map(|(holder, own)| Step::Ask { holder, own }),
            1 => Just(Step::LookAtAll),
        ]
    }

    fn all_of(holds: &BTreeMap<(u8, i64), i64>) -> LastReaders {
        let hold = |(&(holder, index), &end): (&(u8, i64), &i64)| ReadHold {
            holder: [holder].into(),
            index,
            end: Expiry::At(end),
        };
        LastReaders::of(holds.iter().map(hold).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against all holds. It may know nothing, but never anything wrong; and right after a look at all it knows.
        #[test]
        fn the_last_is_the_last_of_all(steps in prop::collection::vec(step(), 1..300)) {
            let mut holds = BTreeMap::new();
            let mut last = all_of(&holds);
            let mut fresh = true;
            for step in steps {
                match step {
                    Step::Set { holder, index, end } => {
                        holds.insert((holder, index), end);
                        last.set(ReadHold { holder: [holder].into(), index, end: Expiry::At(end) });
                    }
                    Step::Drop { holder, first } => {
                        holds.retain(|(other, index), _| *other != holder || *index < first);
                        last.drop_holds(&[holder], first..=i64::MAX);
                        fresh = false;
                    }
                    Step::Ask { holder, own } => {
                        let stay = holds.iter().filter(|((other, index), _)| *other != holder || *index <= own);
                        let longest = stay.map(|(_, end)| Expiry::At(*end)).max();
                        let known = last.last_beside(&[holder], own).map(|hold| hold.end);
                        prop_assert!(known.is_none() || known == longest, "{known:?} of {longest:?}");
                        prop_assert!(!fresh || known == longest);
                    }
                    Step::LookAtAll => {
                        last = all_of(&holds);
                        fresh = true;
                    }
                }
            }
        }
    }
}
