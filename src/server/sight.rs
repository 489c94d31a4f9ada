//! Looking at a lock as a whole, for people on call: without counting as a use of its keys, and with a bound on how many.

use super::cluster;
use super::constants;
use super::context::Context;
use super::key::{Holding as Value, Key};
use super::string::{OwnedStr, Str};
use crate::lock::{Expiry, Holding, Mode, READ_HOLDS_SHOWN_MAX, Refusal, Sight, UnixMs, decimal, names};

/// The lock with the first `most` of its holders, or None if there is none.
///
/// # Errors
/// [`Refusal::WrongType`] where the key is no lock.
pub fn look_at(context: &Context, name: Str<'_>, most: usize) -> Result<Option<Sight>, Refusal> {
    let Some(key) = Key::peek(context, name) else { return Ok(None) };
    if key.holding() != Value::Hash {
        return Err(Refusal::WrongType);
    }
    let mode = mode(&key)?;
    let beside = usize::from(mode.is_some());
    let fields = key.first_fields(most.saturating_add(beside));
    let holdings = fields.iter().filter_map(|(field, value)| Holding::of_field(mode, field, value).transpose());
    Ok(Some(Sight {
        mode,
        expiry: key.expiry(),
        holder_count: key.length().saturating_sub(beside),
        holdings: holdings.take(most).collect::<Result<_, _>>()?,
    }))
}

fn mode(key: &Key<'_>) -> Result<Option<Mode>, Refusal> {
    let Some(mode) = key.field(constants::get().mode.lend()) else { return Ok(None) };
    match mode.lend().bytes() {
        b"read" => Ok(Some(Mode::Read)),
        b"write" => Ok(Some(Mode::Write)),
        _ => Err(Refusal::WrongType),
    }
}

/// What is left of each of its holdings: see [`Sight::left_ms`].
#[must_use]
pub fn left_ms(context: &Context, name: Str<'_>, sight: &Sight, now: UnixMs) -> Vec<Option<i64>> {
    let most = if derived_keys_are_reachable(name) { READ_HOLDS_SHOWN_MAX } else { 0 };
    sight.left_ms(now, most, |holding| longest_lease(context, name, holding))
}

fn longest_lease(context: &Context, name: Str<'_>, reads: &Holding) -> Option<Expiry> {
    let lease = |index| {
        let hold = names::read_hold(name.bytes(), &reads.holder, index, OwnedStr::new);
        Key::peek_expiry(context, hold.lend())
    };
    (1..=reads.count).filter_map(lease).max()
}

/// The last fencing token that was given, if one was.
#[must_use]
pub fn fencing_token(context: &Context, name: Str<'_>) -> Option<i64> {
    if !derived_keys_are_reachable(name) {
        return None;
    }
    let counter = names::fencing_counter(name.bytes(), OwnedStr::new);
    let counter = Key::peek(context, counter.lend())?;
    if counter.holding() == Value::Text { decimal(counter.text()) } else { None }
}

/// Whether the keys derived from this one may be touched beside it.
pub(super) fn derived_keys_are_reachable(name: Str<'_>) -> bool {
    !cluster::enabled() || names::derived_keys_share_the_slot(name.bytes())
}
