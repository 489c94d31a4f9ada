//! Read-write locks: readers share, a writer excludes, and one holder may have both sides if it wrote first.
//!
//! The hash has one lease for all, and each read hold has a key with a lease of its own, because readers come and go
//! independently. Two rules keep one reader from shortening another's lease: while readers hold the lock, its lease is the
//! longest of theirs; while a writer holds it, a read never shortens it.

use super::change::bounded;
use super::plain::count_down;
use super::request::{Asked, Effect, Release, Released, Renewed, one_more};
use super::{
    Change, Decision, Expiry, Field, Mode, Observed, READ_HOLDS_MAX, READ_HOLDS_SCANNED_MAX, READERS_FEW, ReadWrite,
    Record, Refusal, Side, UnixMs, Unlock,
};

/// Grants a read hold when the lock is free, in read mode, or held for writing by this holder. None if it is busy.
///
/// # Errors
/// Refused on a plain lock, and where a limit is met.
pub(super) fn acquire_read(record: &impl Record, asked: Asked) -> Result<Option<Effect>, Refusal> {
    let end = asked.end;
    let (reads, [count, expire]) = match asked.observed {
        Observed::Free => (0, [Some(Change::Begin { side: Side::Read, end }), None]),
        Observed::Mine { .. } | Observed::Others => return Err(Refusal::HoldsPlain),
        Observed::Permits => return Err(Refusal::HoldsPermits),
        Observed::ReadWrite(lock) if lock.mode == Mode::Write && lock.writes == 0 => {
            return Ok(None);
        }
        Observed::ReadWrite(lock) => {
            let count = Change::Count { field: Field::Holder, by: 1, makes: one_more(lock.reads)? };
            let longer = Expiry::At(end) > record.expiry();
            (lock.reads, [Some(count), longer.then_some(Change::ExpireAt(end))])
        }
    };
    let index = one_more(reads)?;
    if index > READ_HOLDS_MAX {
        return Err(Refusal::TooManyHolds);
    }
    asked.granted(record, [count, expire, Some(Change::SetHold { index: bounded(index), end })], true).map(Some)
}

/// Grants a write hold when the lock is free, or when this holder already writes: the new lease then extends the current
/// one. A reader cannot become the writer: two that tried would wait for each other. None if the lock is busy.
///
/// # Errors
/// Refused on a plain lock, and where a limit is met.
pub(super) fn acquire_write(record: &impl Record, asked: Asked) -> Result<Option<Effect>, Refusal> {
    let Asked { observed, lease, end, grace, now, .. } = asked;
    let [count, expire] = match observed {
        Observed::Free => [Some(Change::Begin { side: Side::Write, end }), None],
        Observed::Mine { .. } | Observed::Others => return Err(Refusal::HoldsPlain),
        Observed::Permits => return Err(Refusal::HoldsPermits),
        Observed::ReadWrite(lock) if lock.mode == Mode::Read || lock.writes == 0 => {
            return Ok(None);
        }
        Observed::ReadWrite(lock) => {
            let count = Change::Count { field: Field::HolderWrite, by: 1, makes: one_more(lock.writes)? };
            let grown = match record.expiry() {
                Expiry::At(current) => {
                    let end = lease.end(current.max(now))?;
                    grace.check(end, now)?;
                    Some(Change::ExpireAt(end))
                }
                Expiry::Never => None,
            };
            [Some(count), grown]
        }
    };
    asked.granted(record, [count, expire, None], false).map(Some)
}

/// Releases one hold or all holds, of one side or both.
pub(super) fn release(
    record: &impl Record,
    lock: ReadWrite,
    want: Release,
    now: UnixMs,
) -> Result<Decision<Released>, Refusal> {
    let (reads, writes) = (lock.reads > 0, lock.writes > 0);
    match want.side {
        Some(Side::Plain | Side::Permit(_)) => Err(Refusal::HoldsReadWrite),
        Some(Side::Read) if reads => release_read(record, lock, want, now),
        Some(Side::Write) if writes => release_write(lock, want, now),
        Some(_) => Ok(Decision::unchanged(Released::NotHeld)),
        None => match (reads, writes) {
            (true, true) if want.all => release_both(record, lock),
            (true, true) => Err(Refusal::WhichSide),
            (true, false) => release_read(record, lock, want, now),
            (false, true) => release_write(lock, want, now),
            (false, false) => Ok(Decision::unchanged(Released::NotHeld)),
        },
    }
}

fn release_read(
    record: &impl Record,
    lock: ReadWrite,
    want: Release,
    now: UnixMs,
) -> Result<Decision<Released>, Refusal> {
    if want.lease.is_some() {
        return Err(Refusal::LeaseOnRead);
    }
    reach_derived_keys(record)?;
    let left = want.left_of(lock.reads);
    let count = match left {
        0 => Change::Drop(Field::Holder),
        left => Change::Count { field: Field::Holder, by: -1, makes: left },
    };
    let drop_holds = Some(drop_holds_above(left, lock.reads));
    let still_held = |expire| Decision::new(Released::StillHeld, [Some(count), expire, drop_holds]);
    if lock.mode == Mode::Write {
        return Ok(still_held(None));
    }
    // No other holder has a hold, so there is no lease to look up.
    let alone = left == 0 && !lock.others;
    let longest = if alone { None } else { longest_that_stays(record, lock, left, now) };
    Ok(match longest {
        Some(Expiry::At(end)) => still_held(Some(Change::ExpireAt(end))),
        Some(Expiry::Never) => still_held(None),
        None => {
            let publish = Some(Change::Publish(Unlock::Read));
            Decision::new(Released::Free, [Some(Change::Delete), drop_holds, publish])
        }
    })
}

/// The longest lease among the read holds that stay, when this holder keeps its first `left`; `Never` if the lock's
/// lease is not to change.
///
/// Each read hold has a key of its own, and the server serves no other client while a command looks up a thousand of them
/// for one reader that leaves. But the lock's lease is the longest of its holds: if each leaving hold ends earlier, another
/// hold has that lease. If something else made the lock's lease longer than all holds, it stays so for a while.
fn longest_that_stays(record: &impl Record, lock: ReadWrite, left: i64, now: UnixMs) -> Option<Expiry> {
    let going = lock.reads.saturating_sub(left);
    if record.readers() > READERS_FEW && going <= READ_HOLDS_SCANNED_MAX {
        let latest = (left.saturating_add(1)..=lock.reads).filter_map(|index| record.read_hold_end(index)).max();
        if latest.is_none_or(|latest| latest < record.expiry()) {
            return Some(Expiry::Never);
        }
    }
    record.longest_read_lease(left, now)
}

fn release_write(lock: ReadWrite, want: Release, now: UnixMs) -> Result<Decision<Released>, Refusal> {
    let left = want.left_of(lock.writes);
    if left > 0 {
        return count_down(Field::HolderWrite, left, want.lease, now);
    }
    let stays = lock.reads > 0 || lock.others;
    let [first, second] = if stays {
        [Some(Change::Drop(Field::HolderWrite)), Some(Change::Downgrade)]
    } else {
        [Some(Change::Delete), None]
    };
    Ok(Decision::new(Released::Free, [first, second, Some(Change::Publish(Unlock::Write))]))
}

/// Releases everything this holder has. In write mode, only a foreign client can have added a hold of another holder; it
/// is kept.
fn release_both(record: &impl Record, lock: ReadWrite) -> Result<Decision<Released>, Refusal> {
    reach_derived_keys(record)?;
    let [first, second, third] = if lock.others {
        let (write, read) = (Change::Drop(Field::HolderWrite), Change::Drop(Field::Holder));
        [Some(write), Some(read), Some(Change::Downgrade)]
    } else {
        [Some(Change::Delete), None, None]
    };
    let (drop_holds, publish) = (drop_holds_above(0, lock.reads), Change::Publish(Unlock::Write));
    Ok(Decision::new(Released::Free, [first, second, third, Some(drop_holds), Some(publish)]))
}

/// A count beyond the limit comes from a foreign client; the remaining keys end with their own leases.
fn drop_holds_above(left: i64, reads: i64) -> Change {
    Change::DropHolds { first: left.saturating_add(1), count: bounded(reads.saturating_sub(left)) }
}

/// Restarts the lease of every hold of this holder. A writer is alone, so the lock's lease is its own. A reader's renewal
/// must not end the lock before the leases of other readers.
pub(super) fn renew(
    record: &impl Record,
    lock: ReadWrite,
    end: UnixMs,
    now: UnixMs,
) -> Result<Decision<Renewed>, Refusal> {
    if lock.reads == 0 && lock.writes == 0 {
        return Ok(Decision::unchanged(Renewed::NotHeld));
    }
    if lock.reads > 0 {
        reach_derived_keys(record)?;
    }
    if lock.reads > READ_HOLDS_MAX {
        return Err(Refusal::TooManyHolds);
    }
    let expire = match renewed_expiry(record, lock, end, now) {
        Expiry::At(end) => Some(Change::ExpireAt(end)),
        Expiry::Never => None,
    };
    let holds = (lock.reads > 0).then_some(Change::RenewHolds { count: bounded(lock.reads), end });
    Ok(Decision::new(Renewed::Restarted, [expire, holds]))
}

fn renewed_expiry(record: &impl Record, lock: ReadWrite, end: UnixMs, now: UnixMs) -> Expiry {
    let (renewed, current) = (Expiry::At(end), record.expiry());
    if lock.writes > 0 || renewed >= current {
        return renewed;
    }
    match lock.mode {
        Mode::Read => longest_that_stays(record, lock, 0, now).map_or(renewed, |others| others.max(renewed)),
        // Another holder has a write hold next to this read: only a foreign client can have added it.
        Mode::Write => current,
    }
}

/// Refuses a lock if the keys of its read holds are out of reach: such a lock can have no read holds.
pub(super) fn reach_derived_keys(record: &impl Record) -> Result<(), Refusal> {
    if record.derived_keys_are_reachable() { Ok(()) } else { Err(Refusal::OtherSlot) }
}
