//! Which fencing token a grant gets.
//!
//! A token is of use only if it is larger than all that were given before: also if the counter is gone with the data set,
//! was evicted, or was never received by the replica that is the master now. So it is the counter's next, or the time if
//! that is later. Each grant takes longer than a µs, so the time alone grows from one to the next, whoever forgets what;
//! and the counter sees to it that a clock which is put back makes no token smaller.

use super::{Change, Record, Refusal};

/// Larger numbers cannot be told apart where numbers are floating point, as in Lua and JavaScript. A clock that says more
/// than this, in the year 2255, is wrong; it is not to use up all that tokens can count.
const CLOCK_MAX_US: i64 = (1 << 53) - 1;

/// The change that gives the next token of a lock.
///
/// # Errors
/// Where the counter cannot count.
pub(super) fn next(record: &impl Record) -> Result<Change, Refusal> {
    let counted = record.next_token()?;
    Ok(match record.token_clock_us() {
        None => Change::CountToken { makes: counted },
        // Told as a number, so that whoever follows has the same, whatever its counter said before.
        Some(now_us) => Change::SetToken { to: counted.max(now_us.min(CLOCK_MAX_US)) },
    })
}
