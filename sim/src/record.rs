//! A lock in the keyspace as one holder sees it, and as a whole. It answers as the module's record over an open key does.

use crate::keyspace::{Entry, Keyspace, Permits, Value, find};
use rlock_core::lock::{
    self, Expiry, Holding, Kind, Mode, Observed, Part, READ_HOLDS_SCANNED_MAX, READ_HOLDS_SHOWN_MAX, ReadWrite, Record,
    Refusal, Snapshot, UnixMs, count_entries, decimal, names,
};
use std::ops::Deref;

/// `K` lends the keyspace for as long as the view is open.
pub struct View<'a, K> {
    pub keyspace: K,
    pub database: i32,
    pub key: &'a [u8],
    pub holder: &'a [u8],
    pub clocks: Clocks,
}

/// What a record reports that is not in the keyspace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// The time for fencing tokens, if they go by a clock.
    pub tokens_us: Option<i64>,
    /// Whether any number of readers counts as many.
    pub any_are_many: bool,
}

impl<K: Deref<Target = Keyspace>> View<'_, K> {
    fn entry(&self) -> Option<&Entry> {
        self.keyspace.get(self.database, self.key)
    }

    fn fields(&self) -> Option<&[(Vec<u8>, Vec<u8>)]> {
        match &self.entry()?.value {
            Value::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    /// This holder's plain holds, or its read holds.
    fn reads(&self, fields: &[(Vec<u8>, Vec<u8>)]) -> Result<i64, Refusal> {
        count(find(fields, self.holder))
    }

    fn writes(&self, fields: &[(Vec<u8>, Vec<u8>)]) -> Result<i64, Refusal> {
        names::write_field(self.holder, |field| count(find(fields, field)))
    }

    fn end_of_hold(&self, holder: &[u8], index: i64) -> Option<Expiry> {
        self.keyspace.end_of_hold(self.database, self.key, holder, index)
    }
}

impl<K: Deref<Target = Keyspace>> Record for View<'_, K> {
    fn is_there(&self) -> bool {
        self.entry().is_some()
    }

    fn observe(&self) -> Result<Observed, Refusal> {
        let fields = match self.entry().map(|entry| &entry.value) {
            None => return Ok(Observed::Free),
            Some(Value::SortedSet(_)) => return Ok(Observed::Permits),
            Some(Value::Text(_)) => return Err(Refusal::WrongType),
            Some(Value::Hash(fields)) => fields,
        };
        let others_or = |holds| if holds > 0 { Observed::Mine { holds } } else { Observed::Others };
        let is_alone = fields.len() == 1;
        if is_alone && self.reads(fields)? > 0 {
            return Ok(others_or(self.reads(fields)?));
        }
        let Some(mode) = find(fields, names::MODE_FIELD) else {
            return Ok(others_or(if is_alone { 0 } else { self.reads(fields)? }));
        };
        let mode = mode_of(mode)?;
        // A side is not read if there are too few fields for it.
        let has_room = |holds| fields.len() > if holds > 0 { 2 } else { 1 };
        let (reads, writes) = match mode {
            Mode::Read => {
                let reads = self.reads(fields)?;
                (reads, if has_room(reads) { self.writes(fields)? } else { 0 })
            }
            Mode::Write => {
                let writes = self.writes(fields)?;
                (if has_room(writes) { self.reads(fields)? } else { 0 }, writes)
            }
        };
        let mine = 1 + usize::from(reads > 0) + usize::from(writes > 0);
        Ok(Observed::ReadWrite(ReadWrite { mode, reads, writes, others: fields.len() > mine }))
    }

    /// A single field that is not this holder's is `Others`, even a lone `mode`.
    fn observe_plain(&self) -> Result<Observed, Refusal> {
        match self.fields() {
            Some(fields @ [_]) => {
                let holds = self.reads(fields)?;
                Ok(if holds > 0 { Observed::Mine { holds } } else { Observed::Others })
            }
            _ => self.observe(),
        }
    }

    fn expiry(&self) -> Expiry {
        self.entry().map_or(Expiry::At(UnixMs::MIN), |entry| entry.expiry)
    }

    fn derived_keys_are_reachable(&self) -> bool {
        true
    }

    fn next_token(&self) -> Result<i64, Refusal> {
        let counter = |key: &[u8]| match self.keyspace.get(self.database, key).map(|entry| &entry.value) {
            None => Some(0),
            Some(Value::Text(text)) => decimal(text),
            Some(_) => None,
        };
        let last = names::fencing_counter(self.key, counter);
        last.and_then(|last| last.checked_add(1)).ok_or(Refusal::BadToken)
    }

    fn with_answer<R>(&self, use_answer: impl FnOnce(Option<(&[u8], Expiry)>) -> R) -> Result<R, Refusal> {
        Ok(use_answer(self.keyspace.answer(self.database, self.key)?))
    }

    fn answer_may_be_elsewhere(&self) -> bool {
        false
    }

    fn token_clock_us(&self) -> Option<i64> {
        self.clocks.tokens_us
    }

    fn readers(&self) -> usize {
        if self.clocks.any_are_many { usize::MAX } else { self.fields().map_or(0, <[_]>::len) }
    }

    fn read_hold_end(&self, index: i64) -> Option<Expiry> {
        self.end_of_hold(self.holder, index)
    }

    fn longest_read_lease(&self, own: i64, now: UnixMs) -> Option<Expiry> {
        let mut budget = READ_HOLDS_SCANNED_MAX;
        let fields = self.fields()?;
        if i64::try_from(fields.len()).is_ok_and(|length| length > budget + 1) {
            return Some(Expiry::Never);
        }
        let mut longest = None;
        for (field, value) in fields {
            if field == names::MODE_FIELD || field.ends_with(names::WRITE_SUFFIX) {
                continue;
            }
            let count = if field == self.holder { own } else { count(Some(value)).unwrap_or(0) };
            let Some(left) = budget.checked_sub(count).filter(|left| *left >= 0) else { return Some(Expiry::Never) };
            budget = left;
            let ends = (1..=count).filter_map(|index| self.end_of_hold(field, index));
            longest = longest.max(ends.filter(|end| *end > Expiry::At(now)).max());
        }
        longest
    }

    fn permits(&self, now: UnixMs, most: usize) -> lock::Permits {
        let Some(Value::SortedSet(permits)) = self.entry().map(|entry| &entry.value) else {
            return lock::Permits::default();
        };
        let own_end = permits.end(self.holder);
        let mine = own_end.filter(|end| *end >= now);
        let (taken, ended) = count_permits(permits, now, most);
        let mut others = permits.from(now).rev().filter(|(_, member)| *member != self.holder);
        lock::Permits {
            mine,
            taken,
            ended: ended.saturating_sub(usize::from(own_end.is_some() && mine.is_none())),
            first_end: permits.from(now).next().map(|(end, _)| end),
            others_end: others.next().map(|(end, _)| end),
        }
    }
}

/// How many permits are alive, and how many have ended.
fn count_permits(permits: &Permits, now: UnixMs, most: usize) -> (usize, usize) {
    count_entries(permits.len(), permits.before(now), || permits.from(now), most)
}

/// The count in a field; an absent one counts 0.
fn count(value: Option<&[u8]>) -> Result<i64, Refusal> {
    let positive = |value: &[u8]| decimal(value).filter(|count| *count > 0).ok_or(Refusal::WrongType);
    value.map_or(Ok(0), positive)
}

fn mode_of(value: &[u8]) -> Result<Mode, Refusal> {
    match value {
        b"read" => Ok(Mode::Read),
        b"write" => Ok(Mode::Write),
        _ => Err(Refusal::WrongType),
    }
}

impl Keyspace {
    /// When a read hold of a lock ends, if it is alive.
    fn end_of_hold(&self, database: i32, key: &[u8], holder: &[u8], index: i64) -> Option<Expiry> {
        names::read_hold(key, holder, index, |key| Some(self.get(database, key)?.expiry))
    }

    /// The time until the key ends, or the first of its permits.
    pub fn left_until_next(&self, database: i32, key: &[u8]) -> i64 {
        let now = self.now();
        match self.get(database, key) {
            None => 0,
            Some(Entry { value: Value::SortedSet(permits), .. }) => {
                permits.from(now).next().map_or(0, |(end, _)| Expiry::At(end).left_ms(now))
            }
            Some(entry) => entry.expiry.left_ms(now),
        }
    }

    /// The lock with the first `most` of its holders, or None if there is none.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] where the key is no lock.
    pub fn snapshot(&self, database: i32, key: &[u8], most: usize) -> Result<Option<Snapshot>, Refusal> {
        let Some(Entry { value, expiry }) = self.get(database, key) else { return Ok(None) };
        let fields = match value {
            Value::Text(_) => return Err(Refusal::WrongType),
            Value::SortedSet(permits) => return Ok(snapshot_of_permits(permits, *expiry, most, self.now())),
            Value::Hash(fields) => fields,
        };
        let mode = find(fields, names::MODE_FIELD).map(mode_of).transpose()?;
        let beside = usize::from(mode.is_some());
        let fields_shown = fields.iter().take(most.saturating_add(beside));
        let holdings = fields_shown.filter_map(|(field, value)| Holding::of_field(mode, field, value).transpose());
        Ok(Some(Snapshot {
            kind: if mode.is_some() { Kind::ReadWrite } else { Kind::Plain },
            expiry: *expiry,
            holder_count: fields.len().saturating_sub(beside),
            holdings: holdings.take(most).collect::<Result<_, _>>()?,
        }))
    }

    /// The time left of each of its holdings: see [`Snapshot::left_ms`].
    pub fn left_ms(&self, database: i32, key: &[u8], snapshot: &Snapshot) -> Vec<Option<i64>> {
        let end = |reads: &Holding, index| self.end_of_hold(database, key, &reads.holder, index);
        snapshot.left_ms(self.now(), READ_HOLDS_SHOWN_MAX, |reads| {
            (1..=reads.count).filter_map(|index| end(reads, index)).max()
        })
    }

    /// The answer that is stored for a lock and its end, if there is one.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] where the key of the answer holds something else.
    pub fn answer(&self, database: i32, key: &[u8]) -> Result<Option<(&[u8], Expiry)>, Refusal> {
        names::answer(key, |key| match self.get(database, key) {
            None => Ok(None),
            Some(Entry { value: Value::Text(text), expiry }) => Ok(Some((&text[..], *expiry))),
            Some(_) => Err(Refusal::WrongType),
        })
    }

    /// The last fencing token that was given out, if there was one.
    pub fn fencing_token(&self, database: i32, key: &[u8]) -> Option<i64> {
        names::fencing_counter(key, |counter| match &self.get(database, counter)?.value {
            Value::Text(text) => decimal(text),
            _ => None,
        })
    }
}

fn snapshot_of_permits(permits: &Permits, expiry: Expiry, most: usize, now: UnixMs) -> Option<Snapshot> {
    let (holder_count, _) = count_permits(permits, now, usize::MAX);
    let holding =
        |(end, holder): (UnixMs, &[u8])| Holding { holder: holder.to_vec(), part: Part::Permit(end), count: 1 };
    let holdings = permits.from(now).take(most).map(holding).collect();
    (holder_count > 0).then_some(Snapshot { kind: Kind::Permits, expiry, holder_count, holdings })
}
