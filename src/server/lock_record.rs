//! A lock in Redisson's layout, as one holder sees it: the record that decisions ask. Its key is opened once.

use super::cluster;
use super::constants;
use super::context::Context;
use super::effects;
use super::entry::ErrorLine;
use super::key::{Holding, Key};
use super::string::{OwnedStr, Str};
use crate::lock::{
    Effects, Expiry, Mode, Observed, READ_HOLDS_SCANNED_MAX, ReadWrite, Record, Refusal, UnixMs, decimal, names,
};

pub struct LockRecord<'a> {
    context: &'a Context,
    key: Key<'a>,
    holder: Str<'a>,
}

impl<'a> LockRecord<'a> {
    #[must_use]
    pub fn open(context: &'a Context, key: Str<'a>, holder: Str<'a>) -> Self {
        Self { context, key: Key::open(context, key), holder }
    }

    pub(super) fn is_there(&self) -> bool {
        self.key.holding() != Holding::Nothing
    }

    /// The same lock, as if its holder had let go of it already.
    pub(super) fn vacant(&self) -> Vacant<'_, 'a> {
        Vacant(self)
    }

    /// Gives the lock from this holder to the next, without a moment in between in which it is not there: `released`
    /// would have deleted its key, and `granted` is what the next holder's acquire makes of a free lock.
    ///
    /// Gives the record back, with nothing changed, where that cannot be done in one step.
    pub(super) fn hand_over(self, released: &Effects, next: &[u8], granted: &Effects) -> Result<(), Self> {
        let next = OwnedStr::new(next);
        let next = next.lend();
        match effects::Successor::new(&self.key, self.holder, released, next, granted) {
            Some(successor) => {
                effects::hand_over(self.context, self.key, self.holder, released, &successor);
                Ok(())
            }
            None => Err(self),
        }
    }

    /// Makes the effects true, on this server and on everyone who follows it.
    ///
    /// # Errors
    /// The error reply, with nothing changed, where this is not the time to create a key.
    pub fn apply(self, effects: &Effects) -> Result<(), ErrorLine> {
        effects::apply(self.context, self.key, self.holder, effects)
    }
}

/// See [`LockRecord::vacant`].
pub(super) struct Vacant<'r, 'a>(&'r LockRecord<'a>);

impl Record for Vacant<'_, '_> {
    fn observe(&self) -> Result<Observed, Refusal> {
        Ok(Observed::Free)
    }

    fn expiry(&self) -> Expiry {
        self.0.expiry()
    }

    fn derived_keys_are_reachable(&self) -> bool {
        self.0.derived_keys_are_reachable()
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        self.0.next_token()
    }

    fn readers(&self) -> usize {
        0
    }

    fn read_hold_end(&self, _index: i64) -> Option<Expiry> {
        None
    }

    fn longest_read_lease(&self, _own: i64, _now: UnixMs) -> Option<Expiry> {
        None
    }
}

impl Record for LockRecord<'_> {
    fn observe(&self) -> Result<Observed, Refusal> {
        match self.key.holding() {
            Holding::Nothing => return Ok(Observed::Free),
            Holding::Hash => {}
            Holding::Text | Holding::Other => return Err(Refusal::WrongType),
        }
        let fields = self.key.length();
        if fields == 1 {
            let holds = self.reads()?;
            if holds > 0 {
                // No room for a mode: by far the most frequent case.
                return Ok(Observed::Mine { holds });
            }
        }
        let Some(mode) = self.key.field(constants::get().mode.lend()) else {
            let holds = if fields > 1 { self.reads()? } else { 0 };
            return Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others });
        };
        // Who is alone has the side that the mode says, and then there is no room for the other.
        let has_room = |holds| fields > if holds > 0 { 2 } else { 1 };
        let (mode, reads, writes) = match mode.lend().bytes() {
            b"read" => {
                let reads = self.reads()?;
                (Mode::Read, reads, if has_room(reads) { self.writes()? } else { 0 })
            }
            b"write" => {
                let writes = self.writes()?;
                (Mode::Write, if has_room(writes) { self.reads()? } else { 0 }, writes)
            }
            _ => return Err(Refusal::WrongType),
        };
        let mine = [true, reads > 0, writes > 0].into_iter().filter(|field| *field).count();
        Ok(Observed::ReadWrite(ReadWrite { mode, reads, writes, others: fields > mine }))
    }

    fn observe_plain(&self) -> Result<Observed, Refusal> {
        if self.key.holding() != Holding::Hash || self.key.length() != 1 {
            return self.observe();
        }
        let holds = self.reads()?;
        Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others })
    }

    fn expiry(&self) -> Expiry {
        if self.is_there() { self.key.expiry() } else { Expiry::At(UnixMs::MIN) }
    }

    fn derived_keys_are_reachable(&self) -> bool {
        !cluster::enabled() || names::derived_keys_share_the_slot(self.key.name().bytes())
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        if !self.derived_keys_are_reachable() {
            return Err(Refusal::OtherSlot);
        }
        let name = names::fencing_counter(self.key.name().bytes(), OwnedStr::new);
        let counter = Key::open(self.context, name.lend());
        match counter.holding() {
            Holding::Nothing if cluster::enabled() => {
                drop(counter);
                self.first_token(name.lend())
            }
            Holding::Nothing => Ok(1),
            Holding::Text => decimal(counter.text()).and_then(|token| token.checked_add(1)).ok_or(Refusal::BadToken),
            Holding::Hash | Holding::Other => Err(Refusal::BadToken),
        }
    }

    fn readers(&self) -> usize {
        self.key.length()
    }

    fn read_hold_end(&self, index: i64) -> Option<Expiry> {
        self.end_of_read_hold(self.holder.bytes(), index)
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let mut budget = READ_HOLDS_SCANNED_MAX;
        // One field more, for the mode.
        let Some(fields) = self.key.fields(usize::try_from(budget).unwrap_or(0).saturating_add(1)) else {
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
    /// While a slot moves, the server sends a client to where the lock is, and the counter may be at the other place:
    /// to begin anew would be to give tokens for a second time. Together with the counter a key is asked for that nobody
    /// ever makes, since the server makes no difference for a key alone.
    fn first_token(&self, counter: Str<'_>) -> Result<i64, Refusal> {
        let nobody = names::read_hold(self.key.name().bytes(), b"", 0, OwnedStr::new);
        let is_here = cluster::has_all_there_is_of(self.context, counter, nobody.lend());
        if is_here { Ok(1) } else { Err(Refusal::TokenOnItsWay) }
    }

    /// This holder's plain holds, or its read holds.
    fn reads(&self) -> Result<i64, Refusal> {
        count(self.key.field(self.holder).as_ref())
    }

    fn writes(&self) -> Result<i64, Refusal> {
        count(self.key.field(effects::write_field(self.holder).lend()).as_ref())
    }

    fn end_of_read_hold(&self, holder: &[u8], index: i64) -> Option<Expiry> {
        let hold = names::read_hold(self.key.name().bytes(), holder, index, OwnedStr::new);
        Key::peek_expiry(self.context, hold.lend())
    }
}

/// The count in a field of this holder; a field that is not there counts 0.
fn count(value: Option<&OwnedStr>) -> Result<i64, Refusal> {
    value.map_or(Ok(0), |value| positive(value.lend().bytes()).ok_or(Refusal::WrongType))
}

fn positive(bytes: &[u8]) -> Option<i64> {
    decimal(bytes).filter(|count| *count > 0)
}
