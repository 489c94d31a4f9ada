//! ACQUIRE of any kind, where others may be waiting for the lock already.
//!
//! Nobody overtakes a waiter: what is free to a newcomer is free to those who came before. Only who is inside already
//! goes on at once, since the waiters in front would wait for it, and it for them.

use super::{Decision, Expiry, Lease, Mode, Observed, Record, Refusal, UnixMs, exclusive, read_write};

/// What an acquire asks for, whichever side it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub lease: Lease,
    pub fenced: bool,
}

/// What an acquire is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The fencing token, if one was asked for.
    Granted { token: Option<i64> },
    /// Not granted. Who is told so is told what is left of the lock as well: see [`left_ms`].
    Busy,
}

/// The kind of hold that an acquire asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Read,
    Write,
}

/// Whether somebody waits for the lock who came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    Nobody,
    Someone,
}

/// Grants a hold, if the lock allows it and nobody is passed over.
///
/// # Errors
/// Refused on a lock of another kind, and where a limit is met.
pub fn acquire(
    kind: Kind,
    record: &impl Record,
    want: Acquire,
    ahead: Ahead,
    now: UnixMs,
) -> Result<Decision<Acquired>, Refusal> {
    let end = want.lease.end(now)?;
    if kind == Kind::Read {
        read_write::reach_derived_keys(record)?;
    }
    let observed = if kind == Kind::Plain { record.observe_plain()? } else { record.observe()? };
    if ahead == Ahead::Someone {
        match observed {
            Observed::Free => return Ok(Decision::unchanged(Acquired::Busy)),
            Observed::ReadWrite(lock) if kind == Kind::Read && lock.reads == 0 && lock.writes == 0 => {
                return Ok(Decision::unchanged(Acquired::Busy));
            }
            Observed::Mine { .. } | Observed::Others | Observed::ReadWrite(_) => {}
        }
    }
    let asked = Asked { observed, want, end, now };
    match kind {
        Kind::Plain => exclusive::acquire(record, asked),
        Kind::Read => read_write::acquire_read(record, asked),
        Kind::Write => read_write::acquire_write(record, asked),
    }
}

/// An acquire, and what it meets.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub observed: Observed,
    pub want: Acquire,
    /// When the lease would end.
    pub end: UnixMs,
    pub now: UnixMs,
}

/// The ms left on a lock that is busy: 0 if it has just gone, -1 if it has no expiry. A look-up of its own, which who
/// waits behind others has no use for.
///
/// # Errors
/// Refused if it is of another kind after all, which only a lock that never ends can be: no client makes those.
pub fn left_ms(kind: Kind, record: &impl Record, now: UnixMs) -> Result<i64, Refusal> {
    let expiry = record.expiry();
    if kind == Kind::Plain && expiry == Expiry::Never && matches!(record.observe()?, Observed::ReadWrite(_)) {
        return Err(Refusal::HoldsReadWrite);
    }
    Ok(expiry.left_ms(now))
}

/// Whether a hold that was not granted may be waited for.
///
/// # Errors
/// [`Refusal::Deadlock`] for a reader that wants to write: the wait would be for itself.
pub fn check_wait(kind: Kind, record: &impl Record) -> Result<(), Refusal> {
    if kind != Kind::Write {
        return Ok(());
    }
    match record.observe()? {
        Observed::ReadWrite(lock) if lock.mode == Mode::Read && lock.reads > 0 => Err(Refusal::Deadlock),
        _ => Ok(()),
    }
}
