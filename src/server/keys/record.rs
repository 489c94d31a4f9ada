//! A lock in Redisson's layout, as one holder sees it: the record that decisions ask. Its key is opened once.

use super::kept::{self, mode_of};
use super::write::{self, write_field};
use crate::server::ffi::cluster;
use crate::server::ffi::context::Context;
use crate::server::ffi::key::{Hash, Key, Value, WritableKey};
use crate::server::ffi::string::{OwnedStr, Str};
use rlock_core::lock::{
    Expiry, Mode, Observed, Plan, READ_HOLDS_SCANNED_MAX, ReadWrite, Record, Refusal, UnixMs, decimal, names,
};
use rlock_core::waiting::Paused;

pub struct LockRecord<'a> {
    context: &'a Context,
    key: WritableKey<'a>,
    holder: Str<'a>,
}

impl<'a> LockRecord<'a> {
    #[must_use]
    pub fn open(context: &'a Context, key: Str<'a>, holder: Str<'a>) -> Self {
        Self { context, key: WritableKey::open(context, key), holder }
    }

    /// Makes a plan true, on this server and on all its followers.
    ///
    /// # Errors
    /// If the server may not create a key now; nothing is changed then.
    pub fn commit(self, plan: &Plan<'_, Str<'_>>) -> Result<(), Paused> {
        write::write(self.context, self.key, plan)
    }
}

impl Record for LockRecord<'_> {
    fn is_there(&self) -> bool {
        self.key.value().is_some()
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        self.hash()?.map_or(Ok(Observed::Free), |hash| self.observe_in(hash))
    }

    fn observe_plain(&self) -> Result<Observed, Refusal> {
        let Some(hash) = self.hash()? else { return Ok(Observed::Free) };
        if hash.length() != 1 {
            return self.observe_in(hash);
        }
        let holds = self.reads(hash)?;
        Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others })
    }

    fn expiry(&self) -> Expiry {
        self.key.value().map_or(Expiry::At(UnixMs::MIN), Value::expiry)
    }

    fn derived_keys_are_reachable(&self) -> bool {
        derived_keys_are_reachable(self.key.name())
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        if !self.derived_keys_are_reachable() {
            return Err(Refusal::OtherSlot);
        }
        let name = names::fencing_counter(self.key.name().bytes(), OwnedStr::new);
        let counter = WritableKey::open(self.context, name.lend());
        match counter.value() {
            None if cluster::enabled() => {
                drop(counter);
                self.first_token(name.lend())
            }
            None => Ok(1),
            Some(value) => {
                let token = value.text().and_then(decimal).and_then(|token| token.checked_add(1));
                token.ok_or(Refusal::BadToken)
            }
        }
    }

    fn readers(&self) -> usize {
        self.hash().ok().flatten().map_or(0, Hash::length)
    }

    fn read_hold_end(&self, index: i64) -> Option<Expiry> {
        self.end_of_read_hold(self.holder.bytes(), index)
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let mut budget = READ_HOLDS_SCANNED_MAX;
        let hash = self.hash().ok().flatten()?;
        // One field more, for the mode.
        let Some(fields) = hash.fields(usize::try_from(budget).unwrap_or(0).saturating_add(1)) else {
            return Some(Expiry::Never);
        };
        let mut longest = None;
        for (field, value) in fields {
            if field == names::MODE_FIELD || field.ends_with(names::WRITE_SUFFIX) {
                continue;
            }
            let count = if field == self.holder.bytes() { own } else { positive(&value).unwrap_or(0) };
            let Some(left) = budget.checked_sub(count).filter(|left| *left >= 0) else { return Some(Expiry::Never) };
            budget = left;
            let ends = (1..=count).filter_map(|index| self.end_of_read_hold(&field, index));
            longest = longest.max(ends.filter(|end| *end > Expiry::At(now)).max());
        }
        longest
    }
}

impl LockRecord<'_> {
    /// None if nothing is there.
    fn hash(&self) -> Result<Option<Hash<'_>>, Refusal> {
        self.key.value().map(|value| value.hash().ok_or(Refusal::WrongType)).transpose()
    }

    fn observe_in(&self, hash: Hash<'_>) -> Result<Observed, Refusal> {
        let fields = hash.length();
        if fields == 1 {
            let holds = self.reads(hash)?;
            if holds > 0 {
                // This holder's field is the only one, so there is no mode: by far the most frequent case.
                return Ok(Observed::Mine { holds });
            }
        }
        let Some(mode) = hash.field(kept::get().mode.lend()) else {
            let holds = if fields > 1 { self.reads(hash)? } else { 0 };
            return Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others });
        };
        let mode = mode_of(&mode)?;
        // A holder that is alone has the side that the mode says; `mode` and its field fill the hash.
        let has_room = |holds| fields > if holds > 0 { 2 } else { 1 };
        let (reads, writes) = match mode {
            Mode::Read => {
                let reads = self.reads(hash)?;
                (reads, if has_room(reads) { self.writes(hash)? } else { 0 })
            }
            Mode::Write => {
                let writes = self.writes(hash)?;
                (if has_room(writes) { self.reads(hash)? } else { 0 }, writes)
            }
        };
        let mine = [true, reads > 0, writes > 0].into_iter().filter(|field| *field).count();
        Ok(Observed::ReadWrite(ReadWrite { mode, reads, writes, others: fields > mine }))
    }

    /// While a slot moves, the server sends a client to where the lock is, and the counter may be at the other node: to
    /// begin anew would give tokens out for a second time. The check asks for the counter together with a key that
    /// nobody ever makes, since a key alone would not show it.
    fn first_token(&self, counter: Str<'_>) -> Result<i64, Refusal> {
        let nobody = names::read_hold(self.key.name().bytes(), b"", 0, OwnedStr::new);
        let is_here = cluster::has_all_there_is_of(self.context, counter, nobody.lend());
        if is_here { Ok(1) } else { Err(Refusal::TokenOnItsWay) }
    }

    /// This holder's plain holds, or its read holds.
    fn reads(&self, hash: Hash<'_>) -> Result<i64, Refusal> {
        count(hash.field(self.holder).as_ref())
    }

    fn writes(&self, hash: Hash<'_>) -> Result<i64, Refusal> {
        count(hash.field(write_field(self.holder).lend()).as_ref())
    }

    fn end_of_read_hold(&self, holder: &[u8], index: i64) -> Option<Expiry> {
        let hold = names::read_hold(self.key.name().bytes(), holder, index, OwnedStr::new);
        Key::peek_expiry(self.context, hold.lend())
    }
}

/// Whether the keys derived from this one may be touched beside it.
#[must_use]
pub fn derived_keys_are_reachable(name: Str<'_>) -> bool {
    !cluster::enabled() || names::derived_keys_share_the_slot(name.bytes())
}

/// The count in a field of this holder; an absent field counts 0.
fn count(value: Option<&OwnedStr>) -> Result<i64, Refusal> {
    value.map_or(Ok(0), |value| positive(value.lend().bytes()).ok_or(Refusal::WrongType))
}

fn positive(bytes: &[u8]) -> Option<i64> {
    decimal(bytes).filter(|count| *count > 0)
}
