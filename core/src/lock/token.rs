//! Which fencing token a grant gets.
//!
//! A token is only useful if it is larger than all that were granted before: even if the counter is gone with the data set,
//! was evicted, or never reached the replica that is the master now. So it is the counter's next value, or the time if
//! that is larger. Each grant takes longer than a µs, so the time alone grows from one grant to the next, even with no counter;
//! and the counter ensures that a clock which is set back makes no token smaller.

use super::{Change, Record, Refusal};

/// Floating-point numbers, as in Lua and JavaScript, cannot tell larger ones apart. A clock beyond this, which is in the year
/// 2255, is wrong, and must not use up all tokens.
const CLOCK_MAX_US: i64 = (1 << 53) - 1;

/// The change that gives the next token of a lock.
///
/// # Errors
/// Where the counter cannot count.
pub(super) fn next(record: &impl Record) -> Result<Change, Refusal> {
    let counted = record.next_token()?;
    Ok(match record.token_clock_us() {
        None => Change::CountToken { makes: counted },
        // Replicated as a number, so followers have the same, whatever their counter was before.
        Some(now_us) => Change::SetToken { to: counted.max(now_us.min(CLOCK_MAX_US)) },
    })
}
