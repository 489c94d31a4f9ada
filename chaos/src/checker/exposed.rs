//! Counts the failovers that test a promise: the new master lacked a lock that was held. Also counts these locks, and
//! those with a second holder during the first one's hold.

use super::by_lock::LockHistory;
use super::certain::{Certain, Surroundings};
use super::verdict::Verdict;
use crate::history::{Promotion, Record};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The counts for one kind of failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failovers {
    pub all: u64,
    /// Failovers after which the new master lacked a lock that was certainly held, and the number of these locks.
    pub exposed: u64,
    pub locks: u64,
    /// How many of these locks had two holders.
    pub doubled: u64,
    pub locks_doubled: u64,
}

impl AddAssign for Failovers {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.exposed += other.exposed;
        self.locks += other.locks;
        self.doubled += other.doubled;
        self.locks_doubled += other.locks_doubled;
    }
}

pub fn check(records: &[Record], locks: &[LockHistory], verdict: &mut Verdict) {
    let promotions = records.iter().filter_map(|record| match record {
        Record::Promoted(promotion) => Some(promotion),
        _ => None,
    });
    let mut promotions = promotions.peekable();
    if promotions.peek().is_none() {
        return;
    }
    let pieces: Vec<_> = locks.iter().map(|lock| (lock, Surroundings::of(lock).certain())).collect();
    for promotion in promotions {
        *verdict.failovers.entry(promotion.by.clone()).or_default() += judge(promotion, &pieces);
    }
}

fn judge(promotion: &Promotion, locks: &[(&LockHistory, Vec<Certain>)]) -> Failovers {
    let mut count = Failovers { all: 1, ..Failovers::default() };
    for (lock, pieces) in locks {
        let Some(knew) = promotion.knew.get(lock.name) else { continue };
        let unknown =
            |piece: &&Certain| is_exposed(lock, piece, promotion) && !knew.iter().any(|it| it == piece.step.holder());
        let exposed: Vec<_> = pieces.iter().filter(unknown).collect();
        count.locks += u64::from(!exposed.is_empty());
        count.locks_doubled += u64::from(exposed.iter().any(|piece| is_doubled(piece, pieces, promotion)));
    }
    count.exposed = u64::from(count.locks > 0);
    count.doubled = u64::from(count.locks_doubled > 0);
    count
}

/// Whether the lock was held exclusively for the whole time in which the new master took over and reported its locks, and
/// the hold was not lost in an earlier failover.
fn is_exposed(lock: &LockHistory, piece: &Certain, promotion: &Promotion) -> bool {
    let Promotion { from, until, .. } = promotion;
    let is_held = piece.side.is_exclusive() && piece.from <= *from && piece.until_without_failovers > *until;
    is_held && !lock.troubles.failovers.touching(piece.basis, *from).any(|(_, ended, _)| ended <= from)
}

/// Whether another holder was granted the lock after the promotion began, during the hold of the first one.
fn is_doubled(first: &Certain, pieces: &[Certain], promotion: &Promotion) -> bool {
    pieces.iter().any(|piece| {
        piece.step.holder() != first.step.holder()
            && (promotion.from..first.until_without_failovers).contains(&piece.from)
            && piece.from < piece.until_without_failovers
    })
}

#[cfg(test)]
mod tests {
    use super::Failovers;
    use crate::checker::written::{Written, acquire, failover, give, granted, removed, take};
    use crate::history::{Answer, Side};

    /// Held from 1 to 100, by a server that is silent from 10 on.
    fn held() -> Written {
        Written::default().did("a", take(100), (0, 1), granted()).troubled((10, 90), failover())
    }

    fn exposed(doubled: u64) -> Option<Failovers> {
        Some(Failovers { all: 1, exposed: 1, locks: 1, doubled, locks_doubled: doubled })
    }

    const NOT_EXPOSED: Option<Failovers> =
        Some(Failovers { all: 1, exposed: 0, locks: 0, doubled: 0, locks_doubled: 0 });

    #[test]
    fn what_the_new_master_lacks_is_exposed() {
        assert_eq!(held().promoted((20, 22), &[]).failovers(), exposed(0));
        assert_eq!(held().promoted((20, 22), &["b"]).failovers(), exposed(0), "it knows of another holder");
        assert_eq!(held().promoted((20, 22), &["a"]).failovers(), NOT_EXPOSED);
        assert_eq!(held().failovers(), None, "no replica took over");
    }

    #[test]
    fn what_was_not_held_all_the_time_is_not_exposed() {
        assert_eq!(held().promoted((0, 22), &[]).failovers(), NOT_EXPOSED, "granted meanwhile");
        assert_eq!(held().promoted((20, 120), &[]).failovers(), NOT_EXPOSED, "ended meanwhile");
        let released = held().did("a", give(Side::Plain), (15, 16), Answer::Released(Some(1)));
        assert_eq!(released.promoted((20, 22), &[]).failovers(), NOT_EXPOSED);
        let removed = held().troubled((12, 13), removed(false));
        assert_eq!(removed.promoted((20, 22), &[]).failovers(), NOT_EXPOSED);
        let read = Written::default().did("a", acquire(Side::Read, 100), (0, 1), granted());
        assert_eq!(read.promoted((20, 22), &[]).failovers(), NOT_EXPOSED);
        assert_eq!(held().on("other").promoted((20, 22), &[]).failovers(), NOT_EXPOSED, "it was not asked for it");
    }

    #[test]
    fn what_an_earlier_failover_lost_is_not_counted_again() {
        let again = held().promoted((20, 22), &[]).troubled((92, 93), failover()).promoted((95, 96), &[]);
        assert_eq!(again.failovers(), Some(Failovers { all: 2, exposed: 1, locks: 1, ..Failovers::default() }));
    }

    #[test]
    fn a_second_holder_within_the_time_of_the_first_doubles_it() {
        let next = |at| held().promoted((20, 22), &[]).did("b", take(100), (at, at + 1), granted()).failovers();
        assert_eq!(next(30), exposed(1));
        assert_eq!(next(100), exposed(0));
        let again = held().promoted((20, 22), &[]).did("a", take(100), (30, 31), granted());
        assert_eq!(again.failovers(), exposed(0), "the same holder");
        let read = held().promoted((20, 22), &[]).did("b", acquire(Side::Read, 100), (30, 31), granted());
        assert_eq!(read.failovers(), exposed(1));
    }

    #[test]
    fn each_failover_counts_what_came_after_it() {
        let twice = || held().promoted((20, 22), &[]).promoted((40, 42), &[]);
        let both = |doubled| Some(Failovers { all: 2, exposed: 2, locks: 2, doubled, locks_doubled: doubled });
        assert_eq!(twice().did("b", take(5), (30, 31), granted()).failovers(), both(1));
        assert_eq!(twice().did("b", take(5), (50, 51), granted()).failovers(), both(2));
    }
}
