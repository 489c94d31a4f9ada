//! A data set in memory, at one given time. As in the server, a key still exists in the ms in which it ends.

use crate::plain::{self, Plain};
use rlock_core::lock::{Change, Changes, Expiry, UnixMs, decimal};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyspace {
    now: UnixMs,
    databases: BTreeMap<i32, BTreeMap<Vec<u8>, Entry>>,
    /// All keys that have an end, in order of their ends.
    ends: BTreeSet<(UnixMs, i32, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Value,
    pub expiry: Expiry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// In the order in which the fields came, as servers list those of a small hash.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    SortedSet(Permits),
    Text(Vec<u8>),
}

/// The members of a sorted set, which are permits: the score of each is its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    ends: BTreeMap<Vec<u8>, UnixMs>,
    in_order: BTreeSet<(UnixMs, Vec<u8>)>,
}

impl Permits {
    pub(crate) fn of<'a>(permits: impl Iterator<Item = (&'a [u8], UnixMs)>) -> Self {
        let mut all = Self::default();
        permits.for_each(|(member, end)| all.set(member, end));
        all
    }

    pub fn end(&self, member: &[u8]) -> Option<UnixMs> {
        self.ends.get(member).copied()
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The permits that end at this time or later, the earliest first.
    pub fn from(&self, end: UnixMs) -> impl DoubleEndedIterator<Item = (UnixMs, &[u8])> {
        self.in_order.range((end, Vec::new())..).map(|(end, member)| (*end, &member[..]))
    }

    /// The permits that end before this time.
    pub fn before(&self, end: UnixMs) -> impl DoubleEndedIterator<Item = (UnixMs, &[u8])> {
        self.in_order.range(..(end, Vec::new())).map(|(end, member)| (*end, &member[..]))
    }

    fn set(&mut self, member: &[u8], end: UnixMs) {
        self.remove(member);
        self.ends.insert(member.to_vec(), end);
        self.in_order.insert((end, member.to_vec()));
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(end) = self.ends.remove(member) else { return false };
        self.in_order.remove(&(end, member.to_vec()))
    }
}

impl Keyspace {
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// Sets the clock. An expired key is no longer visible, but stays until [`Self::take_ended`].
    pub fn set_now(&mut self, now: UnixMs) {
        self.now = now;
    }

    /// Removes the next expired key, and returns it.
    pub fn take_ended(&mut self) -> Option<(i32, Vec<u8>)> {
        let (_, database, key) = self.ends.first().filter(|(end, ..)| *end < self.now)?.clone();
        self.remove(database, &key);
        Some((database, key))
    }

    /// When the next key ends.
    pub fn next_end(&self) -> Option<UnixMs> {
        self.ends.first().map(|(end, ..)| *end)
    }

    /// The key, unless it has expired.
    pub fn get(&self, database: i32, key: &[u8]) -> Option<&Entry> {
        self.databases.get(&database)?.get(key).filter(|entry| entry.expiry >= Expiry::At(self.now))
    }

    /// All keys of a database, in the order of their names.
    pub fn entries(&self, database: i32) -> impl Iterator<Item = (&[u8], &Entry)> {
        let all = self.databases.get(&database).into_iter().flatten();
        all.map(|(key, entry)| (&key[..], entry)).filter(|(_, entry)| entry.expiry >= Expiry::At(self.now))
    }

    /// Deletes all keys of a database, or of all.
    pub fn flush(&mut self, database: Option<i32>) {
        self.databases.retain(|number, _| database.is_some_and(|database| *number != database));
        self.ends.retain(|(_, number, _)| database.is_some_and(|database| *number != database));
    }

    /// Applies changes, each as a change of one holder to one key: first those of the locks' own keys, then all others.
    /// `answer` is the value that the plan stores. Returns the channels and messages that they publish.
    ///
    /// # Panics
    /// If a change does not fit the current keys, or its result differs from what it says.
    pub fn apply(
        &mut self,
        database: i32,
        all: &[(&[u8], &[u8], Changes)],
        answer: Option<&[u8]>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut published = Vec::new();
        for changes_of in [Changes::on_lock_key, Changes::on_side_keys] {
            for (key, holder, changes) in all {
                for change in changes_of(changes) {
                    self.check_before(database, key, holder, *change);
                    plain::each((key, holder), *change, answer, |command| match command {
                        Plain::Publish { channel, message } => published.push((channel.to_vec(), message.to_vec())),
                        command => _ = self.run(database, command),
                    });
                    self.check_after(database, key, holder, *change);
                }
            }
        }
        published
    }

    fn check_before(&self, database: i32, key: &[u8], holder: &[u8], change: Change) {
        let value = self.get(database, key).map(|entry| &entry.value);
        let permit = || self.permits(database, key).and_then(|permits| permits.end(holder));
        match change {
            Change::Begin { end, .. } => {
                assert!(value.is_none(), "a lock begins on a free key");
                assert!(end >= self.now, "a lease ends in the future");
            }
            Change::Count { .. } => assert!(matches!(value, Some(Value::Hash(_))), "a lock begins with its lease"),
            Change::Drop(_) => assert!(matches!(value, Some(Value::Hash(_))), "a dropped field was there"),
            Change::ExpireAt(at) => {
                assert!(value.is_some() && at >= self.now, "a lease ends in the future");
            }
            Change::Delete => assert!(value.is_some(), "a deleted lock was there"),
            Change::SetPermit { end, again } => {
                let had = permit();
                assert_eq!(
                    had.is_some_and(|had| had >= self.now),
                    again,
                    "whether the holder has a permit: {had:?} at {}",
                    self.now
                );
                assert_ne!(had, Some(end), "a permit that stays as it is");
            }
            Change::PermitStays => assert!(permit().is_some(), "a permit stays"),
            Change::DropPermit => assert!(permit().is_some(), "a permit that is given back was there"),
            Change::DropEnded { count } => {
                let ended = self.permits(database, key).map_or(0, |permits| permits.before(self.now).count());
                assert!(ended >= count.into(), "the permits that are dropped have ended");
            }
            _ => {}
        }
    }

    fn check_after(&self, database: i32, key: &[u8], holder: &[u8], change: Change) {
        match change {
            Change::Count { field, makes, .. } => {
                let mut count = None;
                plain::with_field(holder, field, |field| count = self.count(database, key, field));
                assert_eq!(count, Some(makes), "the count that the change claims");
                assert!(makes > 0, "a field without holds is dropped");
            }
            Change::Drop(_) | Change::DropPermit => {
                assert!(self.get(database, key).is_some(), "with the last of them the key is deleted");
            }
            _ => {}
        }
    }

    fn permits(&self, database: i32, key: &[u8]) -> Option<&Permits> {
        match &self.get(database, key)?.value {
            Value::SortedSet(permits) => Some(permits),
            _ => None,
        }
    }

    fn count(&self, database: i32, key: &[u8], field: &[u8]) -> Option<i64> {
        match &self.get(database, key)?.value {
            Value::Hash(fields) => find(fields, field).and_then(decimal),
            _ => None,
        }
    }

    /// Runs a command, and returns whether it has changed anything. A command for another type of key changes nothing.
    pub fn run(&mut self, database: i32, command: Plain<'_>) -> bool {
        match command {
            Plain::Publish { .. } => false,
            Plain::Del { key } => {
                let was_there = self.get(database, key).is_some();
                self.remove(database, key);
                was_there
            }
            Plain::PExpireAt { key, at } => self.expire(database, key, Expiry::At(at)),
            Plain::Persist { key } => self.expire(database, key, Expiry::Never),
            Plain::Set { key, value, at } => {
                self.put(database, key, Value::Text(value.to_vec()), at.map_or(Expiry::Never, Expiry::At));
                true
            }
            Plain::SetKeepTtl { key, value } => {
                let expiry = self.get(database, key).map_or(Expiry::Never, |entry| entry.expiry);
                self.put(database, key, Value::Text(value.to_vec()), expiry);
                true
            }
            Plain::Incr { key } => {
                let (number, expiry) = match self.get(database, key) {
                    None => (Some(0), Expiry::Never),
                    Some(Entry { value: Value::Text(text), expiry }) => (decimal(text), *expiry),
                    Some(_) => return false,
                };
                let Some(number) = number.and_then(|number| number.checked_add(1)) else { return false };
                self.put(database, key, Value::Text(number.to_string().into_bytes()), expiry);
                true
            }
            Plain::HSet { key, field, value } => self.change_hash(database, key, |fields| {
                set_field(fields, field, value.to_vec());
                true
            }),
            Plain::HIncrBy { key, field, by } => self.change_hash(database, key, |fields| {
                let count = find(fields, field).map_or(Some(0), decimal).and_then(|count| count.checked_add(by));
                let Some(count) = count else { return false };
                set_field(fields, field, count.to_string().into_bytes());
                true
            }),
            Plain::HDel { key, field } => self.change_hash(database, key, |fields| {
                let before = fields.len();
                fields.retain(|(name, _)| name != field);
                fields.len() < before
            }),
            Plain::ZAdd { key, end, member } => self.change_set(database, key, |permits| {
                permits.set(member, end);
                true
            }),
            Plain::ZRem { key, member } => self.change_set(database, key, |permits| permits.remove(member)),
            Plain::ZRemRangeByRank { key, last } => self.change_set(database, key, |permits| {
                let first = permits.in_order.iter().take(last.saturating_add(1)).map(|(_, member)| member.clone());
                first.collect::<Vec<_>>().iter().fold(false, |_, member| permits.remove(member))
            }),
        }
    }

    fn change_hash(
        &mut self,
        database: i32,
        key: &[u8],
        change: impl FnOnce(&mut Vec<(Vec<u8>, Vec<u8>)>) -> bool,
    ) -> bool {
        let entry = self.entry(database, key, || Value::Hash(Vec::new()));
        let Value::Hash(fields) = &mut entry.value else { return false };
        let has_changed = change(fields);
        if fields.is_empty() {
            self.remove(database, key);
        }
        has_changed
    }

    fn change_set(&mut self, database: i32, key: &[u8], change: impl FnOnce(&mut Permits) -> bool) -> bool {
        let entry = self.entry(database, key, || Value::SortedSet(Permits::default()));
        let Value::SortedSet(permits) = &mut entry.value else { return false };
        let has_changed = change(permits);
        if permits.is_empty() {
            self.remove(database, key);
        }
        has_changed
    }

    /// The key, which is created if it does not exist.
    fn entry(&mut self, database: i32, key: &[u8], value: impl FnOnce() -> Value) -> &mut Entry {
        if self.get(database, key).is_none() {
            self.remove(database, key);
        }
        let keys = self.databases.entry(database).or_default();
        keys.entry(key.to_vec()).or_insert_with(|| Entry { value: value(), expiry: Expiry::Never })
    }

    fn put(&mut self, database: i32, key: &[u8], value: Value, expiry: Expiry) {
        self.remove(database, key);
        if let Expiry::At(end) = expiry {
            self.ends.insert((end, database, key.to_vec()));
        }
        self.databases.entry(database).or_default().insert(key.to_vec(), Entry { value, expiry });
    }

    fn expire(&mut self, database: i32, key: &[u8], expiry: Expiry) -> bool {
        if self.get(database, key).is_none() {
            return false;
        }
        let Some(entry) = self.databases.get_mut(&database).and_then(|keys| keys.get_mut(key)) else { return false };
        if let Expiry::At(end) = std::mem::replace(&mut entry.expiry, expiry) {
            self.ends.remove(&(end, database, key.to_vec()));
        }
        if let Expiry::At(end) = expiry {
            self.ends.insert((end, database, key.to_vec()));
        }
        true
    }

    fn remove(&mut self, database: i32, key: &[u8]) {
        let Some(keys) = self.databases.get_mut(&database) else { return };
        if let Some(Entry { expiry: Expiry::At(end), .. }) = keys.remove(key) {
            self.ends.remove(&(end, database, key.to_vec()));
        }
        if keys.is_empty() {
            self.databases.remove(&database);
        }
    }
}

pub(crate) fn find<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], field: &[u8]) -> Option<&'a [u8]> {
    fields.iter().find(|(name, _)| name == field).map(|(_, value)| &value[..])
}

fn set_field(fields: &mut Vec<(Vec<u8>, Vec<u8>)>, field: &[u8], value: Vec<u8>) {
    match fields.iter_mut().find(|(name, _)| name == field) {
        Some((_, present)) => *present = value,
        None => fields.push((field.to_vec(), value)),
    }
}
