//! A lock as a whole, with all its holders: what people on call look at, and break.
//!
//! Elsewhere a decision asks what one holder may do. Here no holder asks, so each field is read: a hash with a field that is no
//! count is no lock, and is neither shown nor broken. Whether its holders may share a lock is not checked: a lock that foreign
//! scripts have corrupted is the very one to see and break. Permits that have ended are not shown.

use super::{Change, Changes, Expiry, Mode, READ_HOLDS_MAX, Refusal, UnixMs, Unlock, decimal, names};

/// The maximum number of holders that breaking a lock reads: this many take less than a turn of the server.
pub const BROKEN_MAX: usize = 1_000;

/// The maximum number of read holds of a broken lock whose keys are deleted. All others expire with their own leases.
const BROKEN_HOLDS_MAX: i64 = 100_000;

/// The maximum number of read holds whose leases are looked up to be shown.
pub const READ_HOLDS_SHOWN_MAX: i64 = 10_000;

/// A lock that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub kind: Kind,
    pub expiry: Expiry,
    /// The number of holdings, each side of a holder counted by itself.
    pub holder_count: usize,
    /// The first of the holdings.
    pub holdings: Vec<Holding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    ReadWrite,
    Permits,
}

/// One side of one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub holder: Vec<u8>,
    pub part: Part,
    pub count: i64,
}

/// The part of a lock that a holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Plain,
    Read,
    Write,
    /// A permit, with its end.
    Permit(UnixMs),
}

impl Holding {
    /// What a field of a lock's hash says; None for the field that says the mode.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] if it is no count.
    pub fn of_field(mode: Option<Mode>, field: &[u8], value: &[u8]) -> Result<Option<Self>, Refusal> {
        if mode.is_some() && field == names::MODE_FIELD {
            return Ok(None);
        }
        let count = decimal(value).filter(|count| *count > 0).ok_or(Refusal::WrongType)?;
        let (holder, part) = match (mode, field.strip_suffix(names::WRITE_SUFFIX)) {
            (None, _) => (field, Part::Plain),
            (Some(_), Some(holder)) => (holder, Part::Write),
            (Some(_), None) => (field, Part::Read),
        };
        Ok(Some(Self { holder: holder.to_vec(), part, count }))
    }
}

/// PTTL's answer for a key that is absent.
const GONE: i64 = -2;

impl Snapshot {
    /// The time left of each holding, as PTTL gives it: for a read, the longest of its own leases; for a permit its own;
    /// for anything else the lock's. None for the reads beyond the first `most` keys, which are not looked up.
    pub fn left_ms(&self, now: UnixMs, most: i64, read_lease: impl Fn(&Holding) -> Option<Expiry>) -> Vec<Option<i64>> {
        let mut budget = most;
        let left_ms = |holding: &Holding| {
            match holding.part {
                Part::Plain | Part::Write => return Some(self.expiry.left_ms(now)),
                Part::Permit(end) => return Some(Expiry::At(end).left_ms(now)),
                Part::Read => {}
            }
            budget = budget.checked_sub(holding.count).filter(|left| *left >= 0)?;
            Some(read_lease(holding).map_or(GONE, |lease| lease.left_ms(now)))
        };
        self.holdings.iter().map(left_ms).collect()
    }

    /// What breaking the lock changes. The fencing counter stays: tokens must go on growing. `reads_are_reachable`:
    /// whether the keys of read holds may be touched; if not, none of them are ours.
    #[must_use]
    pub fn break_up(self, reads_are_reachable: bool) -> Breaking {
        // The message wakes every Redisson waiter that can go on now. Redisson knows nothing of permits.
        let unlock = match self.kind {
            Kind::Plain => Some(Unlock::Plain),
            Kind::ReadWrite => Some(Unlock::Write),
            Kind::Permits => None,
        };
        let mut budget = BROKEN_HOLDS_MAX;
        let mut holds_of = |holding: Holding| {
            let holds = holding.count.min(READ_HOLDS_MAX).min(budget);
            budget = budget.saturating_sub(holds);
            (holding.holder, holds)
        };
        let reads = self.holdings.into_iter().filter(|holding| reads_are_reachable && holding.part == Part::Read);
        Breaking {
            lock: Changes::of([Some(Change::Delete), unlock.map(Change::Publish)]),
            read_holds: reads.map(&mut holds_of).filter(|(_, holds)| *holds > 0).collect(),
        }
    }
}

/// What breaking a lock changes: what the release of the last hold would change, and every holder's read holds, which are
/// deleted later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaking {
    pub lock: Changes,
    /// The number of each holder's read holds.
    pub read_holds: Vec<(Vec<u8>, i64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(holder: &str, part: Part, count: i64) -> Holding {
        Holding { holder: holder.into(), part, count }
    }

    fn snapshot(kind: Kind, holdings: &[Holding]) -> Snapshot {
        Snapshot { kind, expiry: Expiry::At(1_500), holder_count: holdings.len(), holdings: holdings.to_vec() }
    }

    #[test]
    fn a_field_is_a_side_of_a_holder() {
        let of = |mode, field: &str, value: &str| Holding::of_field(mode, field.as_bytes(), value.as_bytes());
        assert_eq!(of(None, "ann", "2"), Ok(Some(holding("ann", Part::Plain, 2))));
        assert_eq!(of(None, "ann:write", "1"), Ok(Some(holding("ann:write", Part::Plain, 1))));
        for mode in [Some(Mode::Read), Some(Mode::Write)] {
            assert_eq!(of(mode, "mode", "read"), Ok(None));
            assert_eq!(of(mode, "ann", "9223372036854775807"), Ok(Some(holding("ann", Part::Read, i64::MAX))));
            assert_eq!(of(mode, "ann:write", "1"), Ok(Some(holding("ann", Part::Write, 1))));
            assert_eq!(of(mode, ":write", "1"), Ok(Some(holding("", Part::Write, 1))));
        }
    }

    #[test]
    fn what_is_no_count_is_no_lock() {
        for value in ["", "0", "-1", "01", "1.0", "x", "9223372036854775808"] {
            for mode in [None, Some(Mode::Read)] {
                assert_eq!(Holding::of_field(mode, b"ann", value.as_bytes()), Err(Refusal::WrongType), "{value:?}");
            }
        }
        assert_eq!(Holding::of_field(None, b"mode", b"both"), Err(Refusal::WrongType));
    }

    #[test]
    fn reads_have_leases_of_their_own_as_far_as_they_are_looked_at() {
        let holdings = [
            holding("ann", Part::Write, 9),
            holding("ann", Part::Read, 3),
            holding("bob", Part::Read, 3),
            holding("cid", Part::Read, 2),
            holding("dan", Part::Read, 1),
            holding("eve", Part::Read, i64::MAX),
        ];
        let lease = |holding: &Holding| match &holding.holder[..] {
            b"ann" => Some(Expiry::At(1_200)),
            b"cid" => Some(Expiry::Never),
            _ => None,
        };
        let left = |most| snapshot(Kind::ReadWrite, &holdings).left_ms(1_000, most, lease);
        assert_eq!(left(9), [Some(500), Some(200), Some(-2), Some(-1), Some(-2), None]);
        assert_eq!(left(5), [Some(500), Some(200), None, Some(-1), None, None], "one that fits is still looked at");
        assert_eq!(left(0), [Some(500), None, None, None, None, None]);
    }

    #[test]
    fn a_lock_without_an_end_is_shown_so() {
        let plain = Snapshot { expiry: Expiry::Never, ..snapshot(Kind::Plain, &[holding("ann", Part::Plain, 1)]) };
        assert_eq!(plain.left_ms(1_000, 10, |_| None), [Some(-1)]);
    }

    #[test]
    fn breaking_ends_every_read_hold_up_to_a_bound() {
        let read = |holder: &str, count| (holder.as_bytes().to_vec(), count);
        let few = [holding("ann", Part::Write, 2), holding("ann", Part::Read, 3), holding("bob", Part::Read, 1)];
        let broken = snapshot(Kind::ReadWrite, &few).break_up(true);
        assert_eq!(broken.read_holds, [read("ann", 3), read("bob", 1)]);
        assert_eq!(broken.lock.on_side_keys(), [Change::Publish(Unlock::Write)]);
        let many: Vec<_> = (0..12).map(|number| holding(&number.to_string(), Part::Read, i64::MAX)).collect();
        let counts = snapshot(Kind::ReadWrite, &many).break_up(true).read_holds.into_iter().map(|holds| holds.1);
        assert_eq!(counts.collect::<Vec<_>>(), [10_000; 10]);
        let plain = snapshot(Kind::Plain, &[holding("ann", Part::Plain, 2)]).break_up(true);
        assert_eq!(plain.read_holds, []);
        assert_eq!(plain.lock.on_side_keys(), [Change::Publish(Unlock::Plain)]);
    }

    #[test]
    fn each_permit_has_its_own_end_and_breaking_them_wakes_nobody_of_redissons() {
        let permits = [holding("ann", Part::Permit(1_200), 1), holding("bob", Part::Permit(900), 1)];
        let snapshot = snapshot(Kind::Permits, &permits);
        assert_eq!(snapshot.left_ms(1_000, 0, |_| None), [Some(200), Some(0)]);
        let Breaking { lock, read_holds } = snapshot.break_up(true);
        assert_eq!(
            (lock.on_lock_key(), lock.on_side_keys(), &read_holds[..]),
            (&[Change::Delete][..], &[][..], &[][..])
        );
    }
}
