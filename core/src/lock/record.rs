//! The port: what a decision may ask about the keys that hold a lock.
//!
//! A record speaks for one key *and one holder*, and only answers questions: a decision's changes are written later.
//! There are two records: one over an open key of the server, one over a map with a clock that a test moves.

use super::{Expiry, Permits, Refusal, UnixMs};

pub trait Record {
    /// Whether the lock's key is there.
    fn is_there(&self) -> bool;

    /// What the key holds, as this holder sees it.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] where the key is no lock.
    fn observe(&self) -> Result<Observed, Refusal>;

    /// The same for a client that asks for a plain lock, in one look-up: a single field that is not this holder's is
    /// `Others`. [`super::acquire`] finds out if that field is a lone `mode`.
    ///
    /// # Errors
    /// As [`Self::observe`].
    fn observe_plain(&self) -> Result<Observed, Refusal> {
        self.observe()
    }

    /// When the lock's key ends; a time in the past if the key is absent.
    fn expiry(&self) -> Expiry;

    /// Whether the keys derived from this one may be touched, too. In a cluster some names derive into another slot.
    fn derived_keys_are_reachable(&self) -> bool;

    /// The fencing token that the next grant would get by the counter alone.
    ///
    /// # Errors
    /// [`Refusal::BadToken`] where the counter cannot count, [`Refusal::KeysOnTheirWay`] where it may be elsewhere.
    fn next_token(&self) -> Result<i64, Refusal>;

    /// Calls `use_answer` with the answer that is stored for this lock, and the answer's end; with None if none is stored.
    ///
    /// # Errors
    /// [`Refusal::OtherSlot`], and [`Refusal::WrongType`] where the key of the answer holds something else.
    fn with_answer<R>(&self, use_answer: impl FnOnce(Option<(&[u8], Expiry)>) -> R) -> Result<R, Refusal>;

    /// Whether another node may have the answer while the lock's slot moves. Asked only where none is stored here.
    fn answer_may_be_elsewhere(&self) -> bool;

    /// The Unix time in µs: no token may be smaller. None if tokens go by the counter alone.
    fn token_clock_us(&self) -> Option<i64>;

    /// How many readers this lock has, dead ones included, or a few more.
    fn readers(&self) -> usize;

    /// When this holder's read hold number `index` ends, if it is alive.
    fn read_hold_end(&self, index: i64) -> Option<Expiry>;

    /// The latest end among the read holds that are alive after `now`: all those of other holders, and this holder's first
    /// `own`. None if all are dead. `Never` also if there are more than one command may read: the caller then keeps the
    /// lock's lease, which no read hold outlives.
    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry>;

    /// The permits of a key that has some, as they are at `now`: one has ended when its end is past. Those that are alive
    /// need not be counted beyond `most`.
    fn permits(&self, now: UnixMs, most: usize) -> Permits;
}

/// What a read-write lock is held for; the hash's `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
}

/// A lock as one holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    Free,
    /// A plain lock, held by this holder this many times.
    Mine {
        holds: i64,
    },
    /// A plain lock of another holder.
    Others,
    ReadWrite(ReadWrite),
    /// Permits: see [`Record::permits`].
    Permits,
}

/// A read-write lock as one holder sees it. Counts are this holder's; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadWrite {
    pub mode: Mode,
    pub reads: i64,
    pub writes: i64,
    /// Whether any other holder has a hold, alive or dead.
    pub others: bool,
}

/// The integer that these bytes spell, if they spell it just as the server itself does: no sign except a minus, no
/// leading zeros, no spaces.
#[must_use]
pub fn decimal(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let add_digit = |number: i64, byte: &u8| {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        let shifted = number.checked_mul(10)?;
        // The smallest number has no positive counterpart, so a negative number is built downwards.
        if negative { shifted.checked_sub(digit) } else { shifted.checked_add(digit) }
    };
    digits.iter().try_fold(0, add_digit)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn what_the_server_writes_is_read() {
        for number in [0, 1, -1, 9, 10, 1_000_000, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
        }
    }

    #[test]
    fn what_the_server_would_not_write_is_no_number() {
        let foreign = ["", "-", "+1", " 1", "1 ", "01", "-0", "00", "1.5", "1e3", "0x1", "one", "1\0", "--1"];
        let edges = ["9223372036854775808", "-9223372036854775809", "99999999999999999999999999"];
        for text in foreign.into_iter().chain(edges) {
            assert_eq!(decimal(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(decimal(b"\xff\xfe"), None);
        assert_eq!(decimal(&[b'9'; 1_000]), None);
    }
}
