//! A lock as a whole, for people on call: read without counting as a use of its keys, and with a bound on how many.

use super::kept::{self, mode_of};
use super::record::derived_keys_are_reachable;
use crate::server::ffi::context::Context;
use crate::server::ffi::key::{Key, Value};
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{Expiry, Holding, READ_HOLDS_SHOWN_MAX, Refusal, Snapshot, UnixMs, decimal, names};

/// The lock with the first `most` of its holders, or None if there is none.
///
/// # Errors
/// [`Refusal::WrongType`] where the key is no lock.
pub fn take_snapshot(context: &Context, name: Str<'_>, most: usize) -> Result<Option<Snapshot>, Refusal> {
    let Some(key) = Key::peek(context, name) else { return Ok(None) };
    let Some(value) = key.value() else { return Ok(None) };
    let hash = value.hash().ok_or(Refusal::WrongType)?;
    let mode = hash.field(kept::get().mode.lend()).as_ref().map(mode_of).transpose()?;
    let beside = usize::from(mode.is_some());
    let fields = hash.first_fields(most.saturating_add(beside));
    let holdings = fields.iter().filter_map(|(field, value)| Holding::of_field(mode, field, value).transpose());
    Ok(Some(Snapshot {
        mode,
        expiry: value.expiry(),
        holder_count: hash.length().saturating_sub(beside),
        holdings: holdings.take(most).collect::<Result<_, _>>()?,
    }))
}

/// The time left of each of its holdings: see [`Snapshot::left_ms`].
#[must_use]
pub fn left_ms(context: &Context, name: Str<'_>, snapshot: &Snapshot, now: UnixMs) -> Vec<Option<i64>> {
    let most = if derived_keys_are_reachable(name) { READ_HOLDS_SHOWN_MAX } else { 0 };
    snapshot.left_ms(now, most, |holding| longest_lease(context, name, holding))
}

fn longest_lease(context: &Context, name: Str<'_>, reads: &Holding) -> Option<Expiry> {
    let lease = |index| {
        let hold = names::read_hold(name.bytes(), &reads.holder, index, OwnedStr::new);
        Key::peek_expiry(context, hold.lend())
    };
    (1..=reads.count).filter_map(lease).max()
}

/// The last fencing token that was given out, if there was one.
#[must_use]
pub fn fencing_token(context: &Context, name: Str<'_>) -> Option<i64> {
    if !derived_keys_are_reachable(name) {
        return None;
    }
    let counter = names::fencing_counter(name.bytes(), OwnedStr::new);
    let counter = Key::peek(context, counter.lend())?;
    counter.value().and_then(Value::text).and_then(decimal)
}
