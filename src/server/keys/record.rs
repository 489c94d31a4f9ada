//! Reads a lock in Redisson's layout, or permits in a sorted set: for decisions, as one holder sees it, with the key opened
//! once; and for people on call as a whole, up to a bound, which does not count as a use of the keys.

use super::kept::kept;
use super::write::{self, write_field};
use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::context::{Context, clock_us};
use crate::server::ffi::key::{Hash, Key, SortedSet, Value, WritableKey};
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::ffi::this_server;
use rlock_core::lock::{
    Changes, Expiry, Holding, Kind, Mode, Observed, PERMIT_END_MAX, Part, Permits, Plan, READ_HOLDS_SCANNED_MAX,
    READ_HOLDS_SHOWN_MAX, ReadWrite, Record, Refusal, Snapshot, UnixMs, are_permits, count_entries, decimal,
    end_of_score, lowest_score, may_have_been_permits, names, score_of_end,
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

    /// Applies a plan, and the changes in other locks for the same holder, on this server and on all its followers.
    ///
    /// # Errors
    /// If the server may not create a key now; nothing is changed then.
    pub fn commit(self, plan: &Plan<'_, Str<'_>, Str<'_>>, others: Vec<(Self, Changes)>) -> Result<(), Paused> {
        if others.is_empty() {
            return write::write(self.context, self.key, plan);
        }
        let others = others.into_iter().map(|(lock, changes)| (lock.key, changes));
        let all = std::iter::once((self.key, *plan.changes)).chain(others).collect();
        write::write_all(self.context, plan.holder, all)
    }
}

impl Record for LockRecord<'_> {
    fn is_there(&self) -> bool {
        self.key.value().is_some()
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        match self.key.value() {
            None => Ok(Observed::Free),
            Some(value) => value.hash().map_or_else(|| observe_permits(value), |hash| self.observe_in(hash)),
        }
    }

    fn observe_plain(&self) -> Result<Observed, Refusal> {
        let Some(value) = self.key.value() else { return Ok(Observed::Free) };
        let Some(hash) = value.hash() else { return observe_permits(value) };
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
            None if this_server::is_in_cluster() => {
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

    fn with_answer<R>(&self, use_answer: impl FnOnce(Option<(&[u8], Expiry)>) -> R) -> Result<R, Refusal> {
        if !self.derived_keys_are_reachable() {
            return Err(Refusal::OtherSlot);
        }
        let name = names::answer(self.key.name().bytes(), OwnedStr::new);
        let answer = WritableKey::open(self.context, name.lend());
        let stored = answer.value().map(|value| value.text().map(|text| (text, value.expiry())));
        stored.map_or(Ok(None), |text| text.ok_or(Refusal::WrongType).map(Some)).map(use_answer)
    }

    fn answer_may_be_elsewhere(&self) -> bool {
        this_server::is_in_cluster() && !self.is_here(names::answer(self.key.name().bytes(), OwnedStr::new).lend())
    }

    fn token_clock_us(&self) -> Option<i64> {
        SETTINGS.tokens_go_by_clock().then(clock_us)
    }

    fn readers(&self) -> usize {
        self.hash().map_or(0, Hash::length)
    }

    fn read_hold_end(&self, index: i64) -> Option<Expiry> {
        end_of_read_hold(self.context, self.key.name(), self.holder.bytes(), index)
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let mut budget = READ_HOLDS_SCANNED_MAX;
        let hash = self.hash()?;
        // One field more, for the mode.
        let most = usize::try_from(budget).unwrap_or(0).saturating_add(1);
        if hash.length() > most {
            return Some(Expiry::Never);
        }
        let mut longest = None;
        for (field, value) in hash.first_fields(most) {
            if field == names::MODE_FIELD || field.ends_with(names::WRITE_SUFFIX) {
                continue;
            }
            let count = if field == self.holder.bytes() { own } else { positive(&value).unwrap_or(0) };
            let Some(left) = budget.checked_sub(count).filter(|left| *left >= 0) else { return Some(Expiry::Never) };
            budget = left;
            let ends = (1..=count).filter_map(|index| end_of_read_hold(self.context, self.key.name(), &field, index));
            longest = longest.max(ends.filter(|end| *end > Expiry::At(now)).max());
        }
        longest
    }

    fn permits(&self, now: UnixMs, most: usize) -> Permits {
        let Some(set) = self.key.value().and_then(Value::sorted_set) else { return Permits::default() };
        let own_end = set.score(self.holder).and_then(end_of_score);
        let mine = own_end.filter(|end| *end >= now);
        let (taken, entries_ended) = count_permits(set, now, most);
        let others_end = set.descending().find(|(holder, _)| holder.lend().bytes() != self.holder.bytes());
        Permits {
            mine,
            taken,
            ended: entries_ended.saturating_sub(usize::from(own_end.is_some() && mine.is_none())),
            first_end: first_end(set, now),
            others_end: others_end.and_then(|(_, score)| end_of_score(score)).filter(|end| *end >= now),
        }
    }
}

/// How many of these permits are alive, and how many have ended: see [`count_entries`].
fn count_permits(set: SortedSet<'_>, now: UnixMs, most: usize) -> (usize, usize) {
    let now = score_of_end(now);
    count_entries(set.length(), set.steps_below(now), || set.steps_down_to(now), most)
}

/// The earliest end of a permit that has not ended.
fn first_end(set: SortedSet<'_>, now: UnixMs) -> Option<UnixMs> {
    set.ascending_from(score_of_end(now)).next().and_then(|(_, score)| end_of_score(score))
}

/// The permits in a key that holds some.
fn permits_in(value: Value<'_>) -> Result<SortedSet<'_>, Refusal> {
    let set = value.sorted_set().ok_or(Refusal::WrongType)?;
    let lowest = set.ascending_from(f64::NEG_INFINITY).next().ok_or(Refusal::WrongType)?;
    let highest = set.descending().next().ok_or(Refusal::WrongType)?;
    if are_permits(lowest.1, highest.1) { Ok(set) } else { Err(Refusal::WrongType) }
}

fn observe_permits(value: Value<'_>) -> Result<Observed, Refusal> {
    permits_in(value).map(|_| Observed::Permits)
}

/// The ms until a key ends, or until the first of its permits ends: a client may then ask for its lock again.
#[must_use]
pub fn left_until_next(context: &Context, name: Str<'_>, now: UnixMs) -> i64 {
    let Some(key) = Key::peek(context, name) else { return 0 };
    let Some(value) = key.value() else { return 0 };
    match permits_in(value) {
        Ok(permits) => first_end(permits, now).map_or(0, |end| Expiry::At(end).left_ms(now)),
        Err(_) => value.expiry().left_ms(now),
    }
}

impl LockRecord<'_> {
    fn hash(&self) -> Option<Hash<'_>> {
        self.key.value().and_then(Value::hash)
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
        let Some(mode) = hash.field(kept().mode.lend()) else {
            let holds = if fields > 1 { self.reads(hash)? } else { 0 };
            return Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others });
        };
        let mode = mode_of(&mode)?;
        // If this holder is alone, it has the side that the mode says, and `mode` and its field fill the hash.
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

    /// 1, unless the counter may be at another node: beginning again would give out the same tokens.
    fn first_token(&self, counter: Str<'_>) -> Result<i64, Refusal> {
        if self.is_here(counter) { Ok(1) } else { Err(Refusal::KeysOnTheirWay) }
    }

    /// Whether a derived key that is absent here is at no other node. While a slot moves, the server sends a client to the
    /// node of the lock, and other keys may be elsewhere. The server is asked for two keys, since one alone would not show it;
    /// no client creates the second.
    fn is_here(&self, derived: Str<'_>) -> bool {
        let second = names::read_hold(self.key.name().bytes(), b"", 0, OwnedStr::new);
        this_server::has_all_there_is_of(self.context, derived, second.lend())
    }

    /// This holder's plain holds, or its read holds.
    fn reads(&self, hash: Hash<'_>) -> Result<i64, Refusal> {
        count(hash.field(self.holder).as_ref())
    }

    fn writes(&self, hash: Hash<'_>) -> Result<i64, Refusal> {
        count(hash.field(write_field(self.holder).lend()).as_ref())
    }
}

/// When a read hold of a lock ends, if it is alive.
fn end_of_read_hold(context: &Context, lock: Str<'_>, holder: &[u8], index: i64) -> Option<Expiry> {
    let hold = names::read_hold(lock.bytes(), holder, index, OwnedStr::new);
    Key::peek_expiry(context, hold.lend())
}

/// Whether the keys derived from this one may be touched, too.
fn derived_keys_are_reachable(name: Str<'_>) -> bool {
    !this_server::is_in_cluster() || names::derived_keys_share_the_slot(name.bytes())
}

/// The count in a field of this holder; an absent field counts 0.
fn count(value: Option<&OwnedStr>) -> Result<i64, Refusal> {
    value.map_or(Ok(0), |value| positive(value.lend().bytes()).ok_or(Refusal::WrongType))
}

fn positive(bytes: &[u8]) -> Option<i64> {
    decimal(bytes).filter(|count| *count > 0)
}

/// The mode that a value of the field says.
fn mode_of(value: &OwnedStr) -> Result<Mode, Refusal> {
    match value.lend().bytes() {
        b"read" => Ok(Mode::Read),
        b"write" => Ok(Mode::Write),
        _ => Err(Refusal::WrongType),
    }
}

/// The lock with the first `most` of its holders, or None if there is none.
///
/// # Errors
/// [`Refusal::WrongType`] where the key is no lock.
pub fn take_snapshot(context: &Context, name: Str<'_>, most: usize) -> Result<Option<Snapshot>, Refusal> {
    let Some(key) = Key::peek(context, name) else { return Ok(None) };
    let Some(value) = key.value() else { return Ok(None) };
    let Some(hash) = value.hash() else { return permits_snapshot(value, most, context.now()) };
    let mode = hash.field(kept().mode.lend()).as_ref().map(mode_of).transpose()?;
    let extra = usize::from(mode.is_some());
    let fields = hash.first_fields(most.saturating_add(extra));
    let holdings = fields.iter().filter_map(|(field, value)| Holding::of_field(mode, field, value).transpose());
    Ok(Some(Snapshot {
        kind: if mode.is_some() { Kind::ReadWrite } else { Kind::Plain },
        expiry: value.expiry(),
        holder_count: hash.length().saturating_sub(extra),
        holdings: holdings.take(most).collect::<Result<_, _>>()?,
    }))
}

/// The permits that have not ended, in the order of their ends. Of a damaged key, all members with a score from now on; it is
/// shown even without any, so that it can be broken.
fn permits_snapshot(value: Value<'_>, most: usize, now: UnixMs) -> Result<Option<Snapshot>, Refusal> {
    let set = value.sorted_set().ok_or(Refusal::WrongType)?;
    let is_damaged = permits_in(value).is_err();
    let first = set.ascending_from(lowest_score()).next();
    if is_damaged && !first.is_some_and(|(_, score)| may_have_been_permits(score)) {
        return Err(Refusal::WrongType);
    }
    let (holder_count, _) = count_permits(set, now, usize::MAX);
    if holder_count == 0 && !is_damaged {
        return Ok(None);
    }
    let holding = |(holder, score): (OwnedStr, f64)| {
        let end = end_of_score(score.floor()).unwrap_or(PERMIT_END_MAX);
        Holding { holder: holder.lend().bytes().to_vec(), part: Part::Permit(end), count: 1 }
    };
    let holdings = set.ascending_from(score_of_end(now)).take(most).map(holding).collect();
    Ok(Some(Snapshot { kind: Kind::Permits, expiry: value.expiry(), holder_count, holdings }))
}

/// The time left of each of its holdings: see [`Snapshot::left_ms`].
#[must_use]
pub fn left_ms(context: &Context, name: Str<'_>, snapshot: &Snapshot, now: UnixMs) -> Vec<Option<i64>> {
    let most = if derived_keys_are_reachable(name) { READ_HOLDS_SHOWN_MAX } else { 0 };
    let end = |reads: &Holding, index| end_of_read_hold(context, name, &reads.holder, index);
    snapshot.left_ms(now, most, |reads| (1..=reads.count).filter_map(|index| end(reads, index)).max())
}

/// The length of the answer that is stored for a lock, and the ms until its end, if there is one.
#[must_use]
pub fn answer(context: &Context, name: Str<'_>, now: UnixMs) -> Option<(usize, i64)> {
    if !derived_keys_are_reachable(name) {
        return None;
    }
    let answer = names::answer(name.bytes(), OwnedStr::new);
    let answer = Key::peek(context, answer.lend())?;
    let value = answer.value()?;
    Some((value.text()?.len(), value.expiry().left_ms(now)))
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
